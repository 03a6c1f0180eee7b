// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// asAdmin makes one call as a root admin.
func (b *bed) asAdmin(command string, pairs ...string) map[string]any {
	b.t.Helper()
	form := url.Values{"command": {command}, "response": {"json"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	in := httptest.NewRequestWithContext(b.t.Context(), http.MethodPost, "/client/api", strings.NewReader(form.Encode()))
	in.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out := httptest.NewRecorder()
	b.sim.IntegrationHandler().ServeHTTP(out, in)
	require.Equal(b.t, http.StatusOK, out.Code, "%s: %s", command, out.Body)
	var answer map[string]map[string]any
	require.NoError(b.t, json.Unmarshal(out.Body.Bytes(), &answer))
	for _, inner := range answer {
		return inner
	}
	return nil
}

// operator calls the API as a root admin, and waits until the job has ended if there is one.
func (b *bed) operator(command string, pairs ...string) (result map[string]any) {
	b.t.Helper()
	result = b.asAdmin(command, pairs...)
	job, _ := result["jobid"].(string)
	require.Eventually(b.t, func() bool {
		if job == "" {
			return true
		}
		result := b.asAdmin("queryAsyncJobResult", "jobid", job)
		require.NotEqual(b.t, "2", fmt.Sprint(result["jobstatus"]), "%v", result)
		return fmt.Sprint(result["jobstatus"]) == "1"
	}, waitLong, waitStep)
	return result
}

// vm and net are the ids of a VM and a network by name.
func (b *bed) vm(name string) string {
	b.t.Helper()
	vms, err := b.inspect.ListVirtualMachines(b.t.Context(), cloudstack.VMQuery{})
	require.NoError(b.t, err)
	for i := range vms {
		if vms[i].Name == name {
			return vms[i].ID
		}
	}
	b.t.Fatalf("no VM %s", name)
	return ""
}

func (b *bed) net(name string) cloudstack.Network {
	b.t.Helper()
	networks, err := b.inspect.ListNetworks(b.t.Context(), cloudstack.NetworkQuery{})
	require.NoError(b.t, err)
	for i := range networks {
		if networks[i].Name == name {
			return networks[i]
		}
	}
	b.t.Fatalf("no network %s", name)
	return cloudstack.Network{}
}

// A NIC that was added to a running VM counts with the next try, however young the list of VMs is: a refusal rests on a
// fresh read.
func TestRefusalRestsOnAFreshRead(t *testing.T) {
	t.Parallel()
	t.Run("nodes in several networks", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80})
		require.ErrorContains(t, b.sync("w1", "s1"), "k8s-net (w1); second-net (s1)")
		b.operator("addNicToVirtualMachine", "virtualmachineid", b.vm("s1"), "networkid", b.net("k8s-net").ID)
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		b.mustSync("w1", "s1")
		assert.Contains(t, of(b.dump(), b.ip())[2], "[s1 w1]")
	})
	t.Run("a network without nodes", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80}, annotate(annotation.Network, "second-net"))
		require.ErrorContains(t, b.sync("w1"), `no node has a NIC in network "second-net"`)
		b.operator("addNicToVirtualMachine", "virtualmachineid", b.vm("w1"), "networkid", b.net("second-net").ID)
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		b.mustSync("w1")
		assert.Contains(t, of(b.dump(), b.ip())[2], "[w1]")
	})
	t.Run("a node outside the network", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.service([]int{80})
		b.mustSync("w1")
		require.NoError(t, b.lb.UpdateLoadBalancer(t.Context(), "", b.get(), nodesNamed("w1", "s1")))
		assert.Contains(t, b.event(plan.ReasonNodeOutside), "s1")
		b.operator("addNicToVirtualMachine", "virtualmachineid", b.vm("s1"), "networkid", b.net("k8s-net").ID)
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.lb.driftRound(t.Context())
		assert.Contains(t, of(b.dump(), b.ip())[2], "[s1 w1]")
	})
	t.Run("many at once share the read", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		for i := range 5 {
			name := fmt.Sprintf("web%d", i)
			b.service([]int{80}, uid(fmt.Sprintf("%08d-0000-4000-8000-00000000abcd", i)), func(s *corev1.Service) { s.Name = name })
		}
		require.Error(t, b.syncAs("web0", "w1", "s1"))
		b.clock.SetTime(b.clock.Now().Add(time.Minute))
		b.reset()
		for i := range 5 {
			require.Error(t, b.syncAs(fmt.Sprintf("web%d", i), "w1", "s1"))
		}
		assert.Equal(t, 1, count(b.calls(), "listVirtualMachines"))
	})
}

// A tier whose network ACL list is replaced gets the Services' items in the new list, and loses them in the old one,
// within a drift round, which reads the tier once.
func TestReplacedACLListIsSeenInADriftRound(t *testing.T) {
	t.Parallel()
	for _, services := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d Services", services), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, withVPC)
			b.many(services, []int{80}, "v1")
			tier := b.net("tier")
			ours := func() []string { return grep(b.dump(), "(csccm test ") }
			require.Len(t, ours(), services)
			list := b.operator("createNetworkACLList", "name", "acl-2", "vpcid", tier.VPCID)
			b.operator("replaceNetworkACLList", "networkid", tier.ID, "aclid", fmt.Sprint(list["id"]))
			b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
			b.reset()
			b.lb.driftRound(t.Context())
			assert.LessOrEqual(t, count(b.calls(), "listNetworks"), 1)
			assert.Len(t, ours(), services)
			for _, item := range ours() {
				assert.Contains(t, item, "acl acl-2 ")
			}

			b.operator("replaceNetworkACLList", "networkid", tier.ID, "aclid", b.net("denied").ACLID)
			b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
			b.events()
			b.lb.driftRound(t.Context())
			assert.Empty(t, ours(), "items of a list that is used no longer go")
			assert.Contains(t, b.event(plan.ReasonDefaultACL), "list of its own")
		})
	}
}
