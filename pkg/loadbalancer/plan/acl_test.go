// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
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

func onPort(id, protocol string, port int) access.Rule {
	return access.Rule{ID: id, Range: span(protocol, port, port)}
}

func TestNumbersOfACLItems(t *testing.T) {
	t.Parallel()
	item := func(number int, allow bool, protocol string, ports [2]int, cidrs ...string) Item {
		return Item{Rule: access.Rule{Range: span(protocol, ports[0], ports[1], cidrs...)}, Number: number, Ingress: true, Allow: allow}
	}
	everything, everyone := [2]int{}, annotation.Anyone
	wall := item(100, false, "all", everything, everyone)
	f := span(ProtocolTCP, 80, 81, everyone)
	egress := wall
	egress.Ingress, egress.Number = false, 2
	for _, tc := range []struct {
		name  string
		items []Item
		want  int // 0: none is free
	}{
		{"empty list", nil, 1},
		{"no wall", []Item{item(7, true, "tcp", [2]int{22, 22}, everyone)}, 8},
		{"before the wall", []Item{wall, item(1, true, "tcp", [2]int{22, 22}, everyone)}, 99},
		{"beside others there", []Item{wall, item(99, true, "tcp", [2]int{22, 22}, everyone)}, 98},
		{"a deny of some is no wall", []Item{item(5, false, "tcp", [2]int{80, 80}, "192.0.2.0/24")}, 6},
		{"a deny of another port is none", []Item{item(5, false, "tcp", [2]int{443, 443}, everyone)}, 6},
		{"by number of the protocol", []Item{item(5, false, "6", [2]int{81, 90}, everyone)}, 4},
		{"of the other protocol", []Item{item(5, false, "udp", everything, everyone)}, 6},
		{"egress", []Item{egress}, 3},
		{"no room", []Item{item(1, false, "all", everything, everyone)}, 0},
	} {
		n, err := FreeNumber(tc.items, f)
		assert.Equal(t, tc.want, n, tc.name)
		assert.Equal(t, tc.want == 0, err != nil, tc.name)
	}
}

// A Service takes at most half of the numbers before the item that denies all, so that the next one finds room.
func TestRoomInACLList(t *testing.T) {
	t.Parallel()
	everybody := []string{annotation.Anyone}
	wall := func(number int) Item {
		return Item{Rule: access.Rule{ID: "wall", Range: span("all", 0, 0, everybody...)}, Number: number, Ingress: true, Mark: Mark{Owner: Foreign}}
	}
	taken := func(owner Ownership, numbers ...int) (out []Item) {
		for _, n := range numbers {
			port := 1000 + 2*n
			out = append(out, Item{Rule: access.Rule{ID: fmt.Sprint("item-", n), Range: span("tcp", port, port, everybody...)}, Number: n, Ingress: true, Allow: true, Mark: Mark{Owner: owner, Tagged: owner == Owned}})
		}
		return out
	}
	siblings := func(numbers ...int) []Item {
		out := taken(Foreign, numbers...)
		for i := range out {
			out[i].Sibling = true
		}
		return out
	}
	ports := func(n int) (out []int) { // none follows another
		for i := range n {
			out = append(out, 1002+2*i)
		}
		return out
	}
	for _, tc := range []struct {
		name    string
		ports   []int
		ranges  []string
		items   []Item
		message string // part of the refusal; empty for none
	}{
		{name: "no item denies all", ports: ports(50)},
		{name: "half of the numbers", ports: ports(10), items: []Item{wall(21)}},
		{name: "more than half", ports: ports(11), items: []Item{wall(21)}, message: "need 11 items before number 21 of network ACL list tier-list, which denies all: 20 of these numbers are free, of which the Service may take 10: a namespace gets half of what others leave"},
		{name: "half is rounded up", ports: ports(3), items: []Item{wall(6)}},
		{name: "contiguous ports are one item", ports: []int{80, 81, 82, 83, 84}, items: []Item{wall(3)}},
		{name: "numbers of others count as taken", ports: ports(4), items: append(taken(Foreign, 1, 2, 3, 4), wall(11)), message: "6 of these numbers are free"},
		{name: "numbers of the namespace's other Services count for it", ports: ports(1), items: append(siblings(1, 2, 3, 4, 5), wall(11)), message: "5 of these numbers are free, of which the Service may take 0"},
		{name: "the namespace's other Services have some", ports: ports(2), items: append(siblings(1, 2, 3), wall(11))},
		{name: "and its own", ports: ports(3), items: append(append(siblings(1, 2, 3), taken(Owned, 4, 5)...), wall(11)), message: "need 3 items"},
		{name: "one number is enough for one item", ports: ports(1), items: []Item{wall(2)}},
		{name: "no number is free", ports: ports(1), items: []Item{wall(1)}, message: "need 1 item before number 1"},
		{name: "its own items count", ports: ports(6), items: append(taken(Owned, 1, 2, 3, 4), wall(11)), message: "need 6 items"},
		{name: "its own items count once", ports: ports(5), items: append(taken(Owned, 1, 2, 3, 4), wall(11))},
		{name: "what it has it may keep", ports: ports(8), items: append(taken(Owned, 1, 2, 3, 4, 5, 6, 7, 8), wall(11))},
		{name: "what it has it may replace", ports: ports(8), ranges: []string{"10.0.0.0/8", "192.168.0.0/16"}, items: append(taken(Owned, 1, 2, 3, 4, 5, 6, 7, 8), wall(20))},
		{name: "old and new items have no room together", ports: ports(8), ranges: []string{"10.0.0.0/8"}, items: append(taken(Owned, 1, 2, 3, 4, 5, 6, 7, 8), wall(11)), message: "need 16 items"},
		{name: "an item that denies another port", ports: ports(5), items: []Item{{Rule: access.Rule{Range: span("tcp", 9000, 9000, everybody...)}, Number: 1, Ingress: true}}},
		{name: "an item that denies one of the ports", ports: ports(3), items: []Item{{Rule: access.Rule{Range: span("tcp", 1002, 1002, everybody...)}, Number: 2, Ingress: true}}},
		{name: "two that deny", ports: ports(3), items: []Item{{Rule: access.Rule{Range: span("tcp", 1002, 1004, everybody...)}, Number: 3, Ingress: true}, wall(100)}, message: "need 2 items before number 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := tier(desired(tc.ports))
			if tc.ranges != nil {
				d = tier(desired(tc.ports, ranges(tc.ranges...)))
			}
			d.Internal = true // public rules need no items
			a := Actual{ACLs: []ACL{{ListID: "acl", Name: "tier-list", Items: tc.items}, {ListID: "other", Items: []Item{wall(1)}}}}
			refusal := CheckACL(d, a, planOf(d, a, Limits{}))
			if tc.message == "" {
				assert.Nil(t, refusal)
				return
			}
			require.NotNil(t, refusal)
			assert.Equal(t, ReasonSourceRanges, refusal.Reason)
			assert.Contains(t, refusal.Message, tc.message)
			assert.Contains(t, refusal.Remedy, "a higher number")
		})
	}
	assert.Nil(t, CheckACL(Desired{Absent: true}, Actual{ACLs: []ACL{{ListID: ""}}}, nil))
}

func TestReasonsOfACLItems(t *testing.T) {
	t.Parallel()
	svc := aService()
	reason := ACLReason("c1", svc)
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
	cluster, uid, ok = ACLOwner(long)
	assert.Equal(t, []any{"c1", svc.UID, true}, []any{cluster, uid, ok})
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
