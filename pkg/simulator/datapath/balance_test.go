// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func addr(i int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf("10.1.1.%d:30080", i)) }

func client(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("198.51.100.%d", i)) }

func members(n int) []candidate {
	var out []candidate
	for i := range n {
		out = append(out, candidate{address: addr(i + 1), up: true})
	}
	return out
}

func TestLeastConn(t *testing.T) {
	t.Parallel()
	var b balancer
	all, l := members(3), &Listener{Algorithm: leastConn}
	for range 30 {
		a, _ := b.pick(l, all, nil, client(1), time.Time{})
		for i := range all {
			if all[i].address == a {
				all[i].active++
			}
		}
	}
	for _, c := range all {
		require.EqualValues(t, 10, c.active)
	}
	all[2].active = 3
	a, _ := b.pick(l, all, nil, client(1), time.Time{})
	require.Equal(t, addr(3), a)
}

func TestSourceKeepsClients(t *testing.T) {
	t.Parallel()
	var b balancer
	all, l := members(4), &Listener{Algorithm: bySource}
	used := map[netip.AddrPort]bool{}
	for i := range 50 {
		first, _ := b.pick(l, all, nil, client(i), time.Time{})
		second, _ := b.pick(l, all, nil, client(i), time.Time{})
		require.Equal(t, first, second)
		used[first] = true
	}
	require.Len(t, used, 4)
}

func TestStickiness(t *testing.T) {
	t.Parallel()
	var b balancer
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	all, l := members(3), &Listener{Algorithm: roundRobin, Sticky: time.Minute, StickySize: 2}
	first, _ := b.pick(l, all, nil, client(1), now)
	for range 5 { // each connection extends the entry
		now = now.Add(50 * time.Second)
		again, _ := b.pick(l, all, nil, client(1), now)
		require.Equal(t, first, again)
	}
	expired, _ := b.pick(l, all, nil, client(1), now.Add(time.Minute))
	require.NotEqual(t, first, expired, "an expired entry is ignored")

	all[0].up, all[1].up, all[2].up = expired != addr(1), expired != addr(2), expired != addr(3)
	other, _ := b.pick(l, all, nil, client(1), now)
	require.NotEqual(t, expired, other, "a member that is down is replaced")
	for i := range 5 {
		b.pick(l, all, nil, client(10+i), now.Add(time.Duration(i)*time.Second))
	}
	require.Len(t, b.sticky, 2, "the table is full")
	require.Contains(t, b.sticky, client(14))
}

func TestHealth(t *testing.T) {
	t.Parallel()
	run := func(h health, checks ...bool) (ups string) {
		for _, ok := range checks {
			h = h.after(ok)
			ups += map[bool]string{true: "U", false: "d"}[h.up()]
		}
		return ups
	}
	require.True(t, newHealth.up())
	require.Equal(t, "ddUU", run(newHealth, false, true, true, true),
		"a new member is down after its first failure and up after two successes")
	require.Equal(t, "UUUd", run(newHealth, true, false, false, false),
		"a member that was up is down after three failures")
	require.Equal(t, "UUUUU", run(newHealth, true, false, false, true, false))
	require.Equal(t, "dddd", run(newHealth, false, true, false, true))
}
