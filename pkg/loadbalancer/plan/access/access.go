// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access plans which firewall rules, or items of a network ACL list, let sources in to ports. It is pure.
package access

import (
	"cmp"
	"fmt"
	"slices"
)

// Range opens ports to source ranges.
type Range struct {
	Protocol  string   `json:"protocol"`
	StartPort int      `json:"startPort"`
	EndPort   int      `json:"endPort"`
	CIDRs     []string `json:"cidrs"`
}

// Overlaps reports whether two ranges have a port in common.
func (r Range) Overlaps(o Range) bool {
	return r.Protocol == o.Protocol && r.StartPort <= o.EndPort && o.StartPort <= r.EndPort
}

// Ports writes the ports, as "ports 80-81/udp".
func (r Range) Ports() string {
	text := fmt.Sprintf("port %d", r.StartPort)
	if r.StartPort != r.EndPort {
		text = fmt.Sprintf("ports %d-%d", r.StartPort, r.EndPort)
	}
	if r.Protocol == "udp" {
		text += "/udp"
	}
	return text
}

// Rule is a firewall rule, or what an item of a network ACL list has in common with one.
type Rule struct {
	Range
	ID string `json:"id"`
	// Deleting marks one whose deletion failed: the router may still have it, and drops it with its next change.
	Deleting bool `json:"going,omitempty"`
}

// Desired holds, for each protocol and port, the source ranges that are let in; ranges are canonical.
type Desired map[string]map[int][]string

// For lets the same ranges in to each of the ports, which are given by protocol.
func For(ports map[string][]int, ranges []string) Desired {
	out := Desired{}
	ranges = Canonical(ranges)
	for protocol, list := range ports {
		out[protocol] = map[int][]string{}
		for _, port := range list {
			out[protocol][port] = ranges
		}
	}
	return out
}

// Changes turn a set of rules into the desired access.
// In this order no source that may come before and after is shut out meanwhile,
// and nobody is let in who is neither before nor after.
type Changes struct {
	Cover []Range // opens nothing that is not open already: replaces rules in Close and Trim
	Close []Rule  // what must not be open any more
	Open  []Range // opens what was closed
	Trim  []Rule  // what the new rules replace
	// Gap are the ids in Close of rules that had to go before what replaces them: where one access widens and
	// another tightens on the same port, and where CloudStack would see a conflict.
	Gap []string
}

// GapBefore returns the rules that are closed before one is opened that lets some of the same sources in again.
func (c Changes) GapBefore(open Range) []string {
	var out []string
	for _, f := range c.Close {
		if slices.Contains(c.Gap, f.ID) && f.Overlaps(open) {
			out = append(out, f.ID)
		}
	}
	return out
}

// Plan returns the changes that turn the firewall rules we own into the desired access. A rule that opens only
// wanted pairs of port and range stays, however it is cut. others are rules
// that stay in any case. With unique set, two rules that share a protocol,
// a port and the text of a range cannot be together, as CloudStack's firewall
// has it; a range is then written as its halves where it would clash. With a rule
// that is being deleted nothing clashes, and it never serves.
func Plan(want Desired, own []Rule, others []Range, unique bool) Changes {
	var out Changes
	own = Sorted(own)
	missing := Desired{}
	for protocol, ports := range want {
		missing[protocol] = map[int][]string{}
		for port, ranges := range ports {
			missing[protocol][port] = slices.Clone(ranges)
		}
	}
	var surplus []Rule
	for _, f := range own {
		if f.Deleting || !stays(f, missing[f.Protocol]) {
			surplus = append(surplus, f)
			continue
		}
		for port := f.StartPort; port <= f.EndPort; port++ {
			missing[f.Protocol][port] = slices.DeleteFunc(missing[f.Protocol][port], func(r string) bool { return slices.Contains(Canonical(f.CIDRs), r) })
		}
	}
	closing := map[string]bool{}
	for _, f := range surplus {
		closing[f.ID] = !withinDesired(f, want[f.Protocol])
	}
	cover, open := split(want, missing, own, closing)
	for _, c := range group(cover) {
		if !unique {
			out.Cover = append(out.Cover, c)
			continue
		}
		blockers := others
		for _, f := range surplus {
			if !f.Deleting {
				blockers = append(blockers[:len(blockers):len(blockers)], f.Range)
			}
		}
		if text, ok := rewrite(c, blockers); ok {
			out.Cover = append(out.Cover, text)
			continue
		}
		// A single address has no halves: what blocks it goes first.
		out.Open = append(out.Open, c)
		for _, f := range surplus {
			if f.Overlaps(c) && !f.Deleting {
				closing[f.ID] = true
				out.Gap = append(out.Gap, f.ID)
			}
		}
	}
	for _, o := range group(open) {
		for _, f := range surplus {
			if closing[f.ID] && f.Overlaps(o) && intersect(f.CIDRs, o.CIDRs) {
				out.Gap = append(out.Gap, f.ID)
			}
		}
		if unique {
			if text, ok := rewrite(o, others); ok {
				o = text
			}
		}
		out.Open = append(out.Open, o)
	}
	for _, f := range surplus {
		if closing[f.ID] {
			out.Close = append(out.Close, f)
		} else {
			out.Trim = append(out.Trim, f)
		}
	}
	slices.Sort(out.Gap)
	out.Gap = slices.Compact(out.Gap)
	sortRanges(out.Open)
	return out
}

// split divides what is missing into what may be opened before anything is closed, and what may not: what is open
// already, and on ports where access only widens, what takes over from a rule that is closed.
func split(want, missing Desired, own []Rule, closing map[string]bool) (early, late Desired) {
	early, late = Desired{}, Desired{}
	for protocol, ports := range missing {
		early[protocol], late[protocol] = map[int][]string{}, map[int][]string{}
		for port, ranges := range ports {
			var open []string
			closes := false
			for _, f := range own {
				if f.Protocol == protocol && f.StartPort <= port && port <= f.EndPort {
					open = append(open, f.CIDRs...)
					closes = closes || closing[f.ID]
				}
			}
			open = Canonical(open)
			widens := closes && Contain(want[protocol][port], open)
			for _, r := range ranges {
				if widens || Contain(open, []string{r}) {
					early[protocol][port] = append(early[protocol][port], r)
				} else {
					late[protocol][port] = append(late[protocol][port], r)
				}
			}
		}
	}
	return early, late
}

// stays reports whether all that the rule opens is still missing.
func stays(f Rule, missing map[int][]string) bool {
	cidrs := Canonical(f.CIDRs)
	if len(cidrs) == 0 {
		return false
	}
	for port := f.StartPort; port <= f.EndPort; port++ {
		for _, c := range cidrs {
			if !slices.Contains(missing[port], c) {
				return false
			}
		}
	}
	return true
}

// withinDesired reports whether a rule opens nothing but what is wanted.
func withinDesired(f Rule, want map[int][]string) bool {
	for port := f.StartPort; port <= f.EndPort; port++ {
		if !Contain(want[port], f.CIDRs) {
			return false
		}
	}
	return true
}

// rewrite writes the ranges such that they clash with none of the blockers; ok is false when it cannot.
func rewrite(f Range, blockers []Range) (out Range, ok bool) {
	taken := map[string]bool{}
	for _, b := range blockers {
		if !f.Overlaps(b) {
			continue
		}
		for _, c := range b.CIDRs {
			taken[c] = true
		}
	}
	out, ok = f, true
	out.CIDRs = nil
	for _, r := range f.CIDRs {
		form, free := freeForm(r, taken)
		ok = ok && free
		out.CIDRs = append(out.CIDRs, form...)
	}
	return out, ok
}

// group makes contiguous ports with the same ranges one rule.
func group(missing Desired) []Range {
	var out []Range
	for protocol, byPort := range missing {
		ports := make([]int, 0, len(byPort))
		for port, ranges := range byPort {
			if len(ranges) > 0 {
				ports = append(ports, port)
			}
		}
		slices.Sort(ports)
		first := len(out)
		for _, port := range ports {
			if n := len(out); n > first && out[n-1].EndPort == port-1 && slices.Equal(out[n-1].CIDRs, byPort[port]) {
				out[n-1].EndPort = port
				continue
			}
			out = append(out, Range{Protocol: protocol, StartPort: port, EndPort: port, CIDRs: byPort[port]})
		}
	}
	sortRanges(out)
	return out
}

func sortRanges(in []Range) {
	slices.SortStableFunc(in, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.StartPort, b.StartPort), slices.Compare(a.CIDRs, b.CIDRs))
	})
}

// Sorted returns the rules in an order that does not depend on how CloudStack lists them.
func Sorted(in []Rule) []Rule {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.StartPort, b.StartPort), cmp.Compare(a.EndPort, b.EndPort),
			slices.Compare(Canonical(a.CIDRs), Canonical(b.CIDRs)), cmp.Compare(a.ID, b.ID))
	})
	return out
}
