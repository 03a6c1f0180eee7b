// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

func span(protocol string, from, to int, cidrs ...string) access.Range {
	return access.Range{Protocol: protocol, StartPort: from, EndPort: to, CIDRs: cidrs}
}

func TestNumbersOfACLItems(t *testing.T) {
	t.Parallel()
	item := func(number int, allow bool, protocol string, ports [2]int, cidrs ...string) ACLItem {
		return ACLItem{Rule: access.Rule{Range: span(protocol, ports[0], ports[1], cidrs...)}, Number: number, Ingress: true, Allow: allow}
	}
	everything, everyone := [2]int{}, annotation.Anyone
	wall := item(100, false, "all", everything, everyone)
	f := span(ProtocolTCP, 80, 81, everyone)
	egress := wall
	egress.Ingress, egress.Number = false, 2
	for _, tc := range []struct {
		name  string
		items []ACLItem
		want  int // 0: none is free
	}{
		{"empty list", nil, 1},
		{"no wall", []ACLItem{item(7, true, "tcp", [2]int{22, 22}, everyone)}, 8},
		{"before the wall", []ACLItem{wall, item(1, true, "tcp", [2]int{22, 22}, everyone)}, 99},
		{"beside others there", []ACLItem{wall, item(99, true, "tcp", [2]int{22, 22}, everyone)}, 98},
		{"a deny of some is no wall", []ACLItem{item(5, false, "tcp", [2]int{80, 80}, "192.0.2.0/24")}, 6},
		{"a deny of another port is none", []ACLItem{item(5, false, "tcp", [2]int{443, 443}, everyone)}, 6},
		{"by number of the protocol", []ACLItem{item(5, false, "6", [2]int{81, 90}, everyone)}, 4},
		{"of the other protocol", []ACLItem{item(5, false, "udp", everything, everyone)}, 6},
		{"egress", []ACLItem{egress}, 3},
		{"no room", []ACLItem{item(1, false, "all", everything, everyone)}, 0},
	} {
		n, err := FreeNumber(tc.items, f)
		assert.Equal(t, tc.want, n, tc.name)
		assert.Equal(t, tc.want == 0, err != nil, tc.name)
	}
}

func TestReasonsOfACLItems(t *testing.T) {
	t.Parallel()
	svc := aService()
	reason := ACLReason("c1", svc)
	assert.True(t, OwnsACLItem(reason, []string{"c1"}, svc.UID))
	assert.False(t, OwnsACLItem(reason, []string{"c2"}, svc.UID))
	assert.False(t, OwnsACLItem(reason, []string{"c1"}, "other"))
	cluster, uid, ok := ACLOwner(reason)
	assert.Equal(t, []any{"c1", svc.UID, true}, []any{cluster, uid, ok})
	cluster, uid, ok = ACLOwner(ACLReason("The Cluster (2)", Service{UID: "u-1", Namespace: "default", Name: "web"}))
	assert.Equal(t, []any{"The Cluster (2)", "u-1", true}, []any{cluster, uid, ok})
	for _, odd := range []string{"(csccm )", "(csccm x)", "(csccm  x)", "(csccm x )"} {
		_, _, ok = ACLOwner(odd)
		assert.False(t, ok, odd)
	}
	_, _, ok = ACLOwner("by hand (see ticket 7)")
	assert.False(t, ok)
	svc.Name = strings.Repeat("n", 400)
	long := ACLReason("c1", svc)
	assert.LessOrEqual(t, len(long), maxACLReason)
	assert.True(t, OwnsACLItem(long, []string{"now", "c1"}, svc.UID))
}

func TestNamesOfOtherProviders(t *testing.T) {
	t.Parallel()
	svc := aService()
	for name, want := range map[string][2]bool{
		testLB + "-tcp-80": {true, true}, testLB + "-80": {true, true}, "K8s_svc_kubernetes_default_web-tcp-80": {false, true},
		"K8s_svc_kubernetes_default_web-tcp-proxy-80": {false, true}, "K8s_svc_a_b_default_web-tcp-proxy-80": {}, "K8s_svc_kubernetes_other_web-tcp-80": {}, "K8s_svc_kubernetes_default_web2-tcp-80": {}, "web-tcp-80": {},
	} {
		byUID, ok := svc.NamesRule(name, "kubernetes")
		assert.Equal(t, want, [2]bool{byUID, ok}, name)
	}
	assert.True(t, OfKubernetes("K8s_svc_kubernetes_other_web-tcp-80"))
	assert.False(t, OfKubernetes("web-tcp-80"))
}

// On a tier the first rule with source ranges gets its members when CloudStack has shown that it takes them.
func TestMembersWaitForSourceRanges(t *testing.T) {
	t.Parallel()
	d := onTier(desired([]int{80}, ranges("10.0.0.0/8")))
	assert.NotContains(t, strings.Join(lines(planOf(d, Actual{}, Limits{})), ";"), "add-members")
	assert.Contains(t, strings.Join(lines(planOf(d, Actual{}, Limits{CIDRsProven: true})), ";"), "add-members")
	made := run(Actual{}, planOf(d, Actual{}, Limits{}))
	assert.Contains(t, strings.Join(lines(planOf(d, made, Limits{CIDRsProven: true})), ";"), "add-members")

	// A server without such lists: nobody is let in who should not be.
	old := made.Clone()
	old.Addresses[0].Rules[0].CIDRs = nil
	old.Addresses[0].Rules[0].Members = []string{"vm1"}
	plan := planOf(d, old, Limits{NoCIDRs: true, NoTags: true})
	require.Len(t, plan, 1)
	assert.Equal(t, "remove-members", plan[0].Kind())
}
