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
	"github.com/csccm/csccm/pkg/testenv/cases"
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
		return Item{
			Rule:    access.Rule{Range: span(protocol, ports[0], ports[1], cidrs...)},
			Number:  number,
			Ingress: true,
			Allow:   allow,
		}
	}

	everything, everyone := [2]int{}, annotation.Anyone
	wall := item(100, false, "all", everything, everyone)
	f := span(ProtocolTCP, 80, 81, everyone)
	egress := wall
	egress.Ingress, egress.Number = false, 2
	for _, tc := range []struct {
		name  string
		items []Item
		want  int // 0 if none is free
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

// A Service takes at most half of the numbers before the item that denies all, so that the next Service
// finds room.
func TestRoomInACLList(t *testing.T) {
	item := func(number int, ports access.Range, mark Mark) Item {
		rule := access.Rule{ID: fmt.Sprint("item-", number), Range: ports}
		return Item{Rule: rule, Number: number, Ingress: true, Mark: mark}
	}
	allowed := func(number int, mark Mark) Item {
		port := 1000 + 2*number
		i := item(number, span("tcp", port, port, annotation.Anyone), mark)
		i.Allow = true
		return i
	}
	wall := func(number int) Item {
		return item(number, span("all", 0, 0, annotation.Anyone), Mark{Owner: Foreign})
	}

	cases.Run(t, "testdata/acl.yaml", func(t *testing.T, _ string, c struct {
		Apart                    int
		Ports                    []int
		Ranges                   []string
		Owned, Siblings, Foreign []int
		Wall                     int
		Denies                   map[int]string
		Refused                  string
	}) {
		for i := range c.Apart {
			c.Ports = append(c.Ports, 1002+2*i)
		}
		d := tier(desired(c.Ports))
		if c.Ranges != nil {
			d = tier(desired(c.Ports, ranges(c.Ranges...)))
		}
		d.Internal = true // public rules need no items

		var items []Item
		for _, n := range c.Foreign {
			items = append(items, allowed(n, Mark{Owner: Foreign}))
		}
		for _, n := range c.Siblings {
			sibling := allowed(n, Mark{Owner: Foreign})
			sibling.Sibling = true
			items = append(items, sibling)
		}
		for _, n := range c.Owned {
			items = append(items, allowed(n, Mark{Owner: Owned, Tagged: true}))
		}
		for n, ports := range c.Denies {
			denied := span("tcp", 0, 0, annotation.Anyone)
			_, err := fmt.Sscanf(ports, "%d-%d", &denied.StartPort, &denied.EndPort)
			require.NoError(t, err)
			items = append(items, item(n, denied, Mark{}))
		}
		if c.Wall > 0 {
			items = append(items, wall(c.Wall))
		}

		a := Actual{
			ACLs: []ACL{{ListID: "acl", Name: "tier-list", Items: items}, {ListID: "other", Items: []Item{wall(1)}}},
		}
		refusal := CheckACL(d, a, planOf(d, a, Limits{}))
		if c.Refused == "" {
			assert.Nil(t, refusal)
			return
		}
		require.NotNil(t, refusal)
		assert.Equal(t, ReasonSourceRanges, refusal.Reason)
		assert.Contains(t, refusal.Message, c.Refused)
		assert.Contains(t, refusal.Remedy, "a higher number")
	})
}

func TestNoACLListIsNotFull(t *testing.T) {
	t.Parallel()
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
		testLB + "-tcp-80":                            {true, true},
		testLB + "-80":                                {true, true},
		"K8s_svc_kubernetes_default_web-tcp-80":       {false, true},
		"K8s_svc_kubernetes_default_web-tcp-proxy-80": {false, true},
		"K8s_svc_a_b_default_web-tcp-proxy-80":        {},
		"K8s_svc_kubernetes_other_web-tcp-80":         {},
		"K8s_svc_kubernetes_default_web2-tcp-80":      {},
		"web-tcp-80":                                  {},
	} {
		byUID, ok := svc.NamesRule(name, "kubernetes")
		assert.Equal(t, want, [2]bool{byUID, ok}, name)
	}
	assert.True(t, OfKubernetes("K8s_svc_kubernetes_other_web-tcp-80"))
	assert.False(t, OfKubernetes("web-tcp-80"))
}
