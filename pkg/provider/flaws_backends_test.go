// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
)

func TestFlaw13VMWithoutNIC(t *testing.T) {
	t.Parallel()
	b := newBed(t, withWorld(func(w string) string {
		return strings.Replace(w, "virtualMachines:\n", "virtualMachines:\n  - {name: bare, account: k8s, nics: []}\n", 1)
	}))
	b.service([]int{80})
	b.mustSync("w1", "bare")
	assert.Contains(t, grep(b.dump(), webLB)[0], "[w1]")
	assert.Contains(t, b.event(reasonServiceWithoutVMs), "has no NIC")
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

	// A node in another network alone refuses nobody else's Service for good: naming the network serves the others.
	require.Error(t, b.sync("w1", "s1"))
	b.change(annotate(annotation.Network, "k8s-net"))
	b.mustSync("w1", "s1")
	assert.Contains(t, b.event(loadbalancer.ReasonNodeOutside), "s1")
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
		assert.NotEmpty(t, b.event(loadbalancer.ReasonNoBackends))
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
		b.lb.driftRound(t.Context())
		assert.Equal(t, want, b.dump())
	}
}
