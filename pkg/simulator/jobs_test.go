// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

const owner = "k8s-owner"

func (h *harness) network() string { return id(h.first(h.call(owner, "listNetworks"), "network")) }

func (h *harness) legacyIP() string {
	return id(h.first(h.call(owner, "listPublicIpAddresses", "ipaddress", "203.0.113.20"), "publicipaddress"))
}

func TestJobLife(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{Job: 5 * time.Second}})
	a := h.ok(h.call(owner, "associateIpAddress", "networkid", h.network()))
	j := h.ok(h.call(owner, "queryAsyncJobResult", "jobid", a.str("jobid"))).body
	require.EqualValues(t, store.JobPending, j["jobstatus"])
	require.NotContains(t, j, "jobresult")
	require.Equal(t, "localhost", j["managementservername"])
	require.Equal(t, a.str("id"), j["jobinstanceid"])
	require.Len(t, h.call(owner, "listAsyncJobs").items("asyncjobs"), 1)
	// The row is there before the answer; the default list does not show it.
	require.Empty(t, h.call(owner, "listPublicIpAddresses", "id", a.str("id")).items("publicipaddress"))
	ip := h.first(h.call(owner, "listPublicIpAddresses", "id", a.str("id"), "allocatedonly", "false"), "publicipaddress")
	require.Equal(t, store.IPAllocating, ip["state"])
	h.fails(h.call(owner, "createLoadBalancerRule", "publicipid", a.str("id"), "name", "n", "algorithm", "source", "publicport", "1", "privateport", "1"),
		431, wire.CSInvalidValue, "invalid IP address ID")

	h.clock.Step(5 * time.Second)
	j = h.ok(h.call(owner, "queryAsyncJobResult", "jobid", a.str("jobid"))).body
	require.EqualValues(t, store.JobDone, j["jobstatus"])
	require.NotContains(t, j, "managementservername")
	require.Equal(t, "org.apache.cloudstack.api.command.user.address.AssociateIPAddrCmd", j["cmd"])
	require.Empty(t, h.call(owner, "listAsyncJobs").items("asyncjobs"))
	h.clock.Step(25 * time.Hour) // job.expire.minutes
	h.ok(h.call(owner, "associateIpAddress", "networkid", h.network()))
	h.fails(h.call(owner, "queryAsyncJobResult", "jobid", a.str("jobid")), 431, wire.CSGeneric, "entity does not exist")
}

func TestCustomJobID(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	job := uuid.NewString()
	a := h.ok(h.call(owner, "associateIpAddress", "networkid", h.network(), "customjobid", job))
	require.Equal(t, job, a.str("jobid"))
	require.Equal(t, a.str("id"), h.ok(h.call(owner, "queryAsyncJobResult", "jobid", job)).str("jobinstanceid"))
	allocating := func() int {
		return len(h.ok(h.call(owner, "listPublicIpAddresses", "allocatedonly", "false", "state", store.IPAllocating)).items("publicipaddress"))
	}
	require.Zero(t, allocating())
	h.fails(h.call(owner, "associateIpAddress", "networkid", h.network(), "customjobid", job), 530, wire.CSGeneric, wire.InternalErrorText)
	require.Equal(t, 1, allocating())
	h.fails(h.call(owner, "associateIpAddress", "networkid", h.network(), "customjobid", "hello"), 431, wire.CSInvalidValue, "UUID: hello doesn't follow the UUID format")
	require.Equal(t, 2, allocating())
	ip := h.first(h.call(owner, "listPublicIpAddresses", "allocatedonly", "false", "state", store.IPAllocating), "publicipaddress")
	h.done(owner, h.call(owner, "disassociateIpAddress", "id", id(ip)))
	require.Equal(t, 1, allocating())
}

// TestCreatesOnOneAddressWait: creates on one address queue up with sleeps of 5 s; other addresses do not wait.
func TestCreatesOnOneAddressWait(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{LockRetry: 5 * time.Second}})
	ip := h.legacyIP()
	release, err := h.sim.locks.Acquire(t.Context(), "ip/"+ip)
	require.NoError(t, err)
	done := make(chan int, 1)
	go func() {
		done <- h.call(owner, "createLoadBalancerRule", "publicipid", ip, "name", "n", "algorithm", "source", "publicport", "1", "privateport", "1").status
	}()
	require.Eventually(t, h.clock.HasWaiters, time.Minute, time.Millisecond)
	release() // free at once, but the waiter still sleeps
	h.clock.Step(4 * time.Second)
	require.Empty(t, done)
	h.clock.Step(time.Second)
	require.Eventually(t, func() bool { // the create phase itself holds the row for a moment
		h.clock.Step(createTime)
		return len(done) == 1
	}, time.Minute, time.Millisecond)
	require.Equal(t, http.StatusOK, <-done)
}

func TestSamePortAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	ip := h.legacyIP()
	var wg sync.WaitGroup
	got := make(chan int, 8)
	for range 8 {
		wg.Go(func() {
			got <- h.call(owner, "createLoadBalancerRule", "publicipid", ip, "name", "n", "algorithm", "source", "publicport", "1", "privateport", "1").status
		})
	}
	wg.Wait()
	close(got)
	count := map[int]int{}
	for s := range got {
		count[s]++
	}
	require.Equal(t, map[int]int{200: 1, 537: 7}, count)
}

func TestPowerOfVMs(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{Job: 10 * time.Second}})
	vm := id(h.first(h.call(owner, "listVirtualMachines", "name", "DEMO-WORKER-1"), "virtualmachine"))
	state := func() any {
		return h.first(h.call("admin", "listVirtualMachines", "id", vm), "virtualmachine")["state"]
	}
	stop := h.ok(h.call(owner, "stopVirtualMachine", "id", vm))
	require.Equal(t, store.VMRunning, state(), "the job has only just begun")
	h.clock.Step(5 * time.Second)
	require.Equal(t, store.VMStopping, state())
	h.done(owner, stop)
	require.Equal(t, store.VMStopped, state())
	rule := h.first(h.call(owner, "listLoadBalancerRules"), "loadbalancerrule")
	require.Len(t, h.call(owner, "listLoadBalancerRuleInstances", "id", id(rule)).items("loadbalancerruleinstance"), 2, "a stopped VM stays a member")
	h.done(owner, h.call(owner, "startVirtualMachine", "id", vm))
	h.broken(owner, h.call(owner, "startVirtualMachine", "id", vm), 431, "is already running")
	renamed := h.ok(h.call(owner, "updateVirtualMachine", "id", vm, "name", "renamed")).body["virtualmachine"].(map[string]any)
	require.Equal(t, "renamed", renamed["name"])
	h.fails(h.call(owner, "updateVirtualMachine", "id", vm, "name", "under_score"), 431, wire.CSInvalidValue, "Invalid name")

	h.broken(owner, h.call(owner, "destroyVirtualMachine", "id", vm, "expunge", "true"), 530, "does not have permission for expunging")
	h.done(owner, h.call(owner, "destroyVirtualMachine", "id", vm))
	require.Equal(t, store.VMDestroyed, state())
	require.Empty(t, h.call(owner, "listVirtualMachines", "id", vm).items("virtualmachine"), "a user does not see destroyed VMs")
	require.Len(t, h.call(owner, "listLoadBalancerRuleInstances", "id", id(rule)).items("loadbalancerruleinstance"), 1)
	require.Equal(t, store.RuleActive, h.first(h.call(owner, "listLoadBalancerRules", "id", id(rule)), "loadbalancerrule")["state"])
	h.broken(owner, h.call(owner, "assignToLoadBalancerRule", "id", id(rule), "virtualmachineids", vm), 530, "Failed to assign load balancer rule")
	h.fails(h.call(owner, "recoverVirtualMachine", "id", vm), 531, wire.CSPermission, "Recovering a vm can only be done by an Admin")
	h.ok(h.call("admin", "recoverVirtualMachine", "id", vm))
	require.Equal(t, store.VMStopped, state())
	h.done("admin", h.call("admin", "destroyVirtualMachine", "id", vm, "expunge", "true"))
	require.Empty(t, h.ok(h.call("admin", "listVirtualMachines", "id", vm)).items("virtualmachine"), "the id of an expunged VM still resolves")
}

// TestPowerJobsQueue: jobs of one VM run one after the other.
func TestPowerJobsQueue(t *testing.T) {
	t.Parallel()
	h := start(t, Options{Latency: LatencyProfile{Job: 10 * time.Second}})
	vm := id(h.first(h.call(owner, "listVirtualMachines", "name", "demo-cp-1"), "virtualmachine"))
	stop := h.call(owner, "stopVirtualMachine", "id", vm)
	h.clock.Step(5 * time.Second)
	startJob := h.call(owner, "startVirtualMachine", "id", vm)
	h.clock.Step(5 * time.Second)
	require.EqualValues(t, store.JobDone, h.call(owner, "queryAsyncJobResult", "jobid", stop.str("jobid")).body["jobstatus"])
	require.EqualValues(t, store.JobPending, h.call(owner, "queryAsyncJobResult", "jobid", startJob.str("jobid")).body["jobstatus"])
	h.clock.Step(10 * time.Second)
	require.EqualValues(t, store.JobDone, h.call(owner, "queryAsyncJobResult", "jobid", startJob.str("jobid")).body["jobstatus"])
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	p, err := wire.NamedProfile("simulator")
	require.NoError(t, err)
	p.Add(time.Second)
	require.Equal(t, 1024*time.Millisecond, p.CallTime("listVirtualMachines"))
	require.Equal(t, 194*time.Millisecond, p.JobTime("assignToLoadBalancerRule"))
	clk := clocktesting.NewFakeClock(time.Now())
	sim, err := New(Options{Clock: clk, Latency: p})
	require.NoError(t, err)
	require.NotNil(t, sim.Handler())
	_, err = wire.NamedProfile("warp")
	require.ErrorContains(t, err, "use instant, simulator or production")
}
