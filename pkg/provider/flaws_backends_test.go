// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
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

// A VM that is being made has no NIC yet.
func TestFlaw13VMWithoutNIC(t *testing.T) {
	t.Parallel()
	cloud := &fakeCloud{vms: machines(2)}
	cloud.vms[1].NICs = nil
	p, _ := newTestProvider(t, cloud, DefaultOptions())
	nodes := []*corev1.Node{k8sNode(cloud.vms[0].Name, ""), k8sNode(cloud.vms[1].Name, "")}
	vms, err := p.inventory.VMs(t.Context(), 0)
	require.NoError(t, err)
	members, failed := match(vms, nodes)
	require.Len(t, members, 1, "the other node serves")
	assert.Equal(t, cloud.vms[0].ID, members[0].VMID)
	require.Len(t, failed, 1)
	require.ErrorContains(t, failed[0].err, "has no NIC")

	// The node itself waits without ending anything.
	_, err = p.instances.InstanceMetadata(t.Context(), nodes[1])
	require.NoError(t, err)
	exists, err := p.instances.InstanceExists(t.Context(), k8sNode("w2", "external-cloudstack://"+cloud.vms[1].ID))
	require.NoError(t, err)
	assert.True(t, exists)
}

func TestFlaw14NetworkOfTheNodes(t *testing.T) {
	t.Parallel()
	b := newBed(t, withWorld(func(w string) string {
		return strings.Replace(w, "virtualMachines:\n", `virtualMachines:
  - {name: m1, account: k8s, nics: [{network: second-net, ip: 10.1.3.41}, {network: k8s-net, ip: 10.1.1.41, default: true}]}
`, 1)
	}))
	b.service([]int{80})
	b.mustSync("m1", "w1")
	rules := b.rulesAt(b.ip())
	require.Len(t, rules, 1)
	nets, err := b.inspect.ListNetworks(t.Context(), cloudstack.NetworkQuery{ID: rules[0].NetworkID})
	require.NoError(t, err)
	assert.Equal(t, "k8s-net", nets[0].Name, "the network that all nodes share, whichever NIC is first")
	members, err := b.inspect.ListLoadBalancerMembers(t.Context(), rules[0].ID)
	require.NoError(t, err)
	assert.Len(t, members, 2)

	// A node in another network alone does not keep the others from serving. For a new Service the network has to be named.
	b.mustSync("w1", "s1")
	assert.Contains(t, b.event(plan.ReasonNodeOutside), "s1")
	b.service([]int{81}, uid(mailUID), func(s *corev1.Service) { s.Name = "mail" })
	require.ErrorContains(t, b.syncAs("mail", "w1", "s1"), "several networks")
	b.changeAs("mail", annotate(annotation.Network, "k8s-net"))
	require.NoError(t, b.syncAs("mail", "w1", "s1"))
}

func TestFlaw16NoEligibleNode(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80, 81})
	b.mustSync("w1", "w2")
	for _, do := range []func() error{
		func() error { return b.sync() },
		func() error { return b.lb.UpdateLoadBalancer(t.Context(), "", b.get(), nil) },
	} {
		b.mustSync("w1", "w2")
		b.events()
		require.NoError(t, do())
		for _, r := range grep(b.dump(), webLB) {
			assert.True(t, strings.HasSuffix(r, " []"), r)
		}
		assert.NotEmpty(t, b.event(plan.ReasonNoBackends))
	}
}

func TestFlaw17MembersRemovedByHandComeBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80, 81})
	b.mustSync("w1", "w2")
	want := b.dump()
	for _, all := range []bool{false, true} {
		rule := b.rulesAt(b.ip())[0]
		members, err := b.inspect.ListLoadBalancerMembers(t.Context(), rule.ID)
		require.NoError(t, err)
		ids := []string{members[0].VMID}
		if all {
			ids = append(ids, members[1].VMID)
		}
		b.byHand(b.inspect.RemoveFromLoadBalancerRule(t.Context(), rule.ID, cloudstack.VMs(ids...)))
		require.NotEqual(t, want, b.dump())
		b.clock.SetTime(b.clock.Now().Add(5 * time.Minute))
		b.lb.driftRound(t.Context())
		assert.Equal(t, want, b.dump())
	}
}
