// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// TestProfileIsMeasured has the figures as they were written down, in milliseconds.
func TestProfileIsMeasured(t *testing.T) {
	t.Parallel()
	p, err := wire.NamedProfile("simulator")
	require.NoError(t, err)
	for command, want := range map[string]int{
		"listVirtualMachines": 24, "listLoadBalancerRules": 10, "listPublicIpAddresses": 18, "listFirewallRules": 13, "listNetworks": 35,
		"queryAsyncJobResult": 11, "associateIpAddress": 41, "createLoadBalancerRule": 49, "assignToLoadBalancerRule": 22,
		"createFirewallRule": 27, "createNetworkACL": 12, "listZones": 33,
	} {
		require.Equal(t, wire.Ms(want), p.CallTime(command), command)
	}
	for command, want := range map[string]int{
		"associateIpAddress": 40, "disassociateIpAddress": 170, "createLoadBalancerRule": 13, "assignToLoadBalancerRule": 194,
		"removeFromLoadBalancerRule": 196, "updateLoadBalancerRule": 144, "deleteLoadBalancerRule": 167, "createFirewallRule": 50,
		"deleteFirewallRule": 46, "createNetworkACL": 14, "createTags": 8, "expungeVirtualMachine": 6000,
	} {
		require.Equal(t, wire.Ms(want), p.JobTime(command), command)
	}
	for command, between := range map[string][2]int{"startVirtualMachine": {480, 4200}, "stopVirtualMachine": {150, 600}} {
		require.Greater(t, p.JobTime(command), wire.Ms(between[0]))
		require.Less(t, p.JobTime(command), wire.Ms(between[1]))
	}
	require.Greater(t, p.CallTime("listApis"), 270*time.Millisecond)
	require.Less(t, p.CallTime("listApis"), 360*time.Millisecond)
	require.Equal(t, 5*time.Second, p.LockRetry)
	cat, err := catalogue.Load()
	require.NoError(t, err)
	for _, name := range []string{"simulator", "production"} {
		p, err := wire.NamedProfile(name)
		require.NoError(t, err)
		for _, m := range []map[string]time.Duration{p.Calls, p.Jobs} {
			for command := range m {
				require.Contains(t, cat.ByName, command, "%s: no such command", name)
			}
		}
	}
}

// TestJobTakesItsTime: a job is pending until its time of the profile has passed.
func TestJobTakesItsTime(t *testing.T) {
	t.Parallel()
	p, err := wire.NamedProfile("simulator")
	require.NoError(t, err)
	p.Call, p.Calls = 0, nil // the test's clock stands still during calls
	h := start(t, Options{Latency: p})
	rule := id(h.first(h.call(owner, "listLoadBalancerRules"), "loadbalancerrule"))
	vm := id(h.first(h.call(owner, "listVirtualMachines", "name", "demo-cp-1"), "virtualmachine"))
	job := h.ok(h.call(owner, "assignToLoadBalancerRule", "id", rule, "virtualmachineids", vm)).str("jobid")
	h.clock.Step(193 * time.Millisecond)
	require.EqualValues(t, store.JobPending, h.call(owner, "queryAsyncJobResult", "jobid", job).body["jobstatus"])
	h.clock.Step(time.Millisecond)
	require.EqualValues(t, store.JobDone, h.call(owner, "queryAsyncJobResult", "jobid", job).body["jobstatus"])
}
