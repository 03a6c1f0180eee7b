// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"hash/fnv"
	"net/netip"
	"time"
)

// candidate is a member with the data that the choice depends on.
type candidate struct {
	address netip.AddrPort
	up      bool
	active  int64 // connections
}

// balancer chooses members for clients. The mutex of its rule guards it.
type balancer struct {
	next   uint64
	sticky map[netip.Addr]stickyEntry
}

// stickyEntry is the member that a client sticks to until it has made no connection for the expiry time.
type stickyEntry struct {
	member netip.AddrPort
	until  time.Time
}

// pick chooses among the members that are up, except those in not. It returns false if there is none. A client with a
// sticky entry gets another member only if its member is down or in not.
func (b *balancer) pick(
	l *Listener, all []candidate, not map[netip.AddrPort]bool, client netip.Addr, now time.Time,
) (netip.AddrPort, bool) {
	var up []candidate
	for _, c := range all {
		if c.up && !not[c.address] {
			up = append(up, c)
		}
	}

	if len(up) == 0 {
		return netip.AddrPort{}, false
	}

	if l.Sticky > 0 {
		if s, ok := b.sticky[client]; ok && now.Before(s.until) {
			for _, c := range up {
				if c.address == s.member {
					b.remember(l, client, c.address, now)
					return c.address, true
				}
			}
		}
	}

	chosen := b.balance(l.Algorithm, up, client)
	if l.Sticky > 0 {
		b.remember(l, client, chosen, now)
	}

	return chosen, true
}

func (b *balancer) balance(algorithm string, up []candidate, client netip.Addr) netip.AddrPort {
	switch algorithm {
	case bySource:
		h := fnv.New32a()
		_, _ = h.Write(client.AsSlice()) // never fails
		return up[int(h.Sum32())%len(up)].address
	case leastConn:
		least := up[0].active
		for _, c := range up {
			least = min(least, c.active)
		}
		var equal []candidate
		for _, c := range up {
			if c.active == least {
				equal = append(equal, c)
			}
		}
		up = equal
	}

	b.next++
	return up[(b.next-1)%uint64(len(up))].address
}

// remember updates a client's entry. If the table is full, it replaces the oldest entry.
func (b *balancer) remember(l *Listener, client netip.Addr, member netip.AddrPort, now time.Time) {
	if b.sticky == nil {
		b.sticky = map[netip.Addr]stickyEntry{}
	}
	if _, known := b.sticky[client]; !known && len(b.sticky) >= l.StickySize {
		var oldest netip.Addr
		for a, s := range b.sticky {
			if !oldest.IsValid() || s.until.Before(b.sticky[oldest].until) {
				oldest = a
			}
		}
		delete(b.sticky, oldest)
	}
	b.sticky[client] = stickyEntry{member, now.Add(l.Sticky)}
}

// health counts the checks of a member like HAProxy: after three failures in a row the member is down, after two
// successes it is up again. A new member is up until its first failure.
type health int

const (
	rise = 2
	fall = 3

	newHealth  health = rise
	fullHealth health = rise + fall - 1
)

func (h health) up() bool { return h >= rise }

// after returns the health after one more check.
func (h health) after(ok bool) health {
	switch {
	case ok && h+1 >= rise:
		return fullHealth
	case ok:
		return h + 1
	case !h.up() || h-1 < rise:
		return 0
	}
	return h - 1
}
