// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// desiredAccess holds, for each protocol and port, the source ranges that are let in; ranges are canonical.
type desiredAccess map[string]map[int][]string

func accessFor(open PortSet, ranges []string) desiredAccess {
	out := desiredAccess{}
	ranges = canonicalRanges(ranges)
	for protocol, ports := range open {
		out[protocol] = map[int][]string{}
		for _, port := range ports {
			out[protocol][port] = ranges
		}
	}
	return out
}

// accessChanges turn a set of rules into the desired access.
// In this order no source that may come before and after is shut out meanwhile,
// and nobody is let in who is neither before nor after.
type accessChanges struct {
	Cover []FirewallRange  // opens nothing that is not open already: replaces rules in Close and Trim
	Close []ActualFirewall // what must not be open any more
	Open  []FirewallRange  // opens what was closed
	Trim  []ActualFirewall // what the new rules replace
	// Gap are the ids in Close of rules that had to go before what replaces them: where one access widens and
	// another tightens on the same port, and where CloudStack would see a conflict.
	Gap []string
}

// steps adds the changes to a plan, as actions that open and close.
func (s accessChanges) steps(p *planner, open func(FirewallRange) Action, closed func(ActualFirewall) Action) {
	for _, f := range s.Cover {
		p.add(waveCover, open(f))
	}
	for _, f := range s.Close {
		p.add(waveClose, closed(f))
	}
	for _, f := range s.Open {
		p.add(waveBuild, open(f), s.gapBefore(f)...)
	}
	for _, f := range s.Trim {
		p.add(waveTrim, closed(f))
	}
}

// gapBefore returns the rules that are closed before one is opened that lets some of the same sources in again.
func (s accessChanges) gapBefore(open FirewallRange) []string {
	var out []string
	for _, f := range s.Close {
		if slices.Contains(s.Gap, f.ID) && f.overlaps(open) {
			out = append(out, f.ID)
		}
	}
	return out
}

// planAccess returns the changes that turn the firewall rules we own into the desired access. A rule that opens only
// wanted pairs of port and range stays, however it is cut. others are rules
// that stay in any case. With unique set, two rules that share a protocol,
// a port and the text of a range cannot be together, as CloudStack's firewall
// has it; a range is then written as its halves where it would clash. With a rule
// that is being deleted nothing clashes, and it never serves.
func planAccess(want desiredAccess, own []ActualFirewall, others []FirewallRange, unique bool) accessChanges {
	var out accessChanges
	own = sortedFirewall(own)
	missing := desiredAccess{}
	for protocol, ports := range want {
		missing[protocol] = map[int][]string{}
		for port, ranges := range ports {
			missing[protocol][port] = slices.Clone(ranges)
		}
	}
	var surplus []ActualFirewall
	for _, f := range own {
		if f.Deleting || !keepFirewall(f, missing[f.Protocol]) {
			surplus = append(surplus, f)
			continue
		}
		for port := f.StartPort; port <= f.EndPort; port++ {
			missing[f.Protocol][port] = slices.DeleteFunc(missing[f.Protocol][port], func(r string) bool { return slices.Contains(canonicalRanges(f.CIDRs), r) })
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
				blockers = append(blockers[:len(blockers):len(blockers)], f.FirewallRange)
			}
		}
		if text, ok := rewrite(c, blockers); ok {
			out.Cover = append(out.Cover, text)
			continue
		}
		// A single address has no halves: what blocks it goes first.
		out.Open = append(out.Open, c)
		for _, f := range surplus {
			if f.overlaps(c) && !f.Deleting {
				closing[f.ID] = true
				out.Gap = append(out.Gap, f.ID)
			}
		}
	}
	for _, o := range group(open) {
		for _, f := range surplus {
			if closing[f.ID] && f.overlaps(o) && intersect(f.CIDRs, o.CIDRs) {
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
func split(want, missing desiredAccess, own []ActualFirewall, closing map[string]bool) (early, late desiredAccess) {
	early, late = desiredAccess{}, desiredAccess{}
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
			open = canonicalRanges(open)
			widens := closes && containsRanges(want[protocol][port], open)
			for _, r := range ranges {
				if widens || containsRanges(open, []string{r}) {
					early[protocol][port] = append(early[protocol][port], r)
				} else {
					late[protocol][port] = append(late[protocol][port], r)
				}
			}
		}
	}
	return early, late
}

// intersect reports whether two lists have a source in common.
func intersect(a, b []string) bool {
	x, _, err1 := annotation.ParseRanges(a)
	y, _, err2 := annotation.ParseRanges(b)
	return err1 == nil && err2 == nil && len(annotation.Intersect(x, y)) > 0
}

// keepFirewall reports whether all that the rule opens is still missing.
func keepFirewall(f ActualFirewall, missing map[int][]string) bool {
	cidrs := canonicalRanges(f.CIDRs)
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
func withinDesired(f ActualFirewall, want map[int][]string) bool {
	for port := f.StartPort; port <= f.EndPort; port++ {
		if !containsRanges(want[port], f.CIDRs) {
			return false
		}
	}
	return true
}

// rewrite writes the ranges such that they clash with none of the blockers; ok is false when it cannot.
func rewrite(f FirewallRange, blockers []FirewallRange) (out FirewallRange, ok bool) {
	taken := map[string]bool{}
	for _, b := range blockers {
		if !f.overlaps(b) {
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

// freeForm is the shortest way to write a range with prefixes that are not taken: itself, its halves, their halves.
func freeForm(r string, taken map[string]bool) ([]string, bool) {
	prefix, err := netip.ParsePrefix(r)
	if err != nil {
		return []string{r}, !taken[r]
	}
	form := []netip.Prefix{prefix}
	for range 4 {
		if !slices.ContainsFunc(form, func(p netip.Prefix) bool { return taken[p.String()] }) {
			return annotation.Strings(form), true
		}
		var next []netip.Prefix
		for _, p := range form {
			low, high, ok := annotation.Halves(p)
			if !ok {
				return []string{r}, false
			}
			next = append(next, low, high)
		}
		form = next
	}
	return []string{r}, false
}

// containsRanges reports whether every inner range lies within the outer ones.
func containsRanges(outer, inner []string) bool {
	out, _, err1 := annotation.ParseRanges(outer)
	in, _, err2 := annotation.ParseRanges(inner)
	if err1 != nil || err2 != nil {
		return false
	}
	out = annotation.Aggregate(out)
	for _, i := range in {
		if !slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Bits() <= i.Bits() && o.Contains(i.Addr()) }) {
			return false
		}
	}
	return true
}

// group makes contiguous ports with the same ranges one rule.
func group(missing desiredAccess) []FirewallRange {
	var out []FirewallRange
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
			out = append(out, FirewallRange{Protocol: protocol, StartPort: port, EndPort: port, CIDRs: byPort[port]})
		}
	}
	sortRanges(out)
	return out
}

func sortRanges(in []FirewallRange) {
	slices.SortStableFunc(in, func(a, b FirewallRange) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.StartPort, b.StartPort), slices.Compare(a.CIDRs, b.CIDRs))
	})
}

// canonicalRanges masks, sorts and joins ranges; what does not parse stays as it is.
func canonicalRanges(in []string) []string {
	var odd []string
	var prefixes []netip.Prefix
	for _, r := range in {
		v4, _, err := annotation.ParseRanges([]string{r})
		if err != nil || len(v4) != 1 {
			odd = append(odd, r)
			continue
		}
		prefixes = append(prefixes, v4[0])
	}
	out := append(annotation.Strings(annotation.Aggregate(prefixes)), odd...)
	slices.Sort(out)
	return slices.Compact(out)
}

func sortedFirewall(in []ActualFirewall) []ActualFirewall {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b ActualFirewall) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.StartPort, b.StartPort), cmp.Compare(a.EndPort, b.EndPort),
			slices.Compare(canonicalRanges(a.CIDRs), canonicalRanges(b.CIDRs)), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// SameRanges reports whether two lists let in the same sources.
func SameRanges(a, b []string) bool { return slices.Equal(canonicalRanges(a), canonicalRanges(b)) }
