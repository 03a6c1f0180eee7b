// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access plans the firewall rules, or items of a network ACL list, that allow sources to reach ports. It makes
// no calls and keeps no state.
package access

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// Range is a range of ports that is open to source ranges.
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

// Ports returns the ports as text, such as "ports 80-81/udp".
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

// Rule is a firewall rule, or the part of a network ACL item that is the same.
type Rule struct {
	Range
	ID string `json:"id"`
	// Deleting means that the deletion of the rule failed: the router may still have it, and drops it with its next
	// change.
	Deleting bool `json:"going,omitempty"`
}

// port is one port of a protocol.
type port struct {
	protocol string
	number   int
}

// sources are source ranges by port.
type sources map[port][]string

// every reports whether the predicate is true for the source ranges of each port in a range.
func (s sources) every(r Range, predicate func(ranges []string) bool) bool {
	for n := r.StartPort; n <= r.EndPort; n++ {
		if !predicate(s[port{r.Protocol, n}]) {
			return false
		}
	}
	return true
}

// Changes turn a set of rules into the desired access, in the order of the fields. A source that is allowed before and
// after keeps its access throughout, and a source allowed neither before nor after is never admitted.
type Changes struct {
	Cover []Range // opens nothing new: replaces rules in Close and Trim
	Close []Rule  // rules that open what must no longer be open
	Open  []Range // opens what is closed now
	Trim  []Rule  // rules that new ones have replaced
	// Gap are the ids of rules in Close that must be deleted before their replacement is created: if one access widens
	// and another tightens on the same port, or if CloudStack would report a conflict.
	Gap []string
}

// GapBefore returns the ids of rules that have to be closed before open, which allows some of the same sources again.
func (c Changes) GapBefore(open Range) []string {
	var out []string
	for _, f := range c.Close {
		if slices.Contains(c.Gap, f.ID) && f.Overlaps(open) {
			out = append(out, f.ID)
		}
	}
	return out
}

// Plan returns the changes that turn our own rules into the desired access: ports, by protocol, are open to ranges. An
// own rule that opens only desired pairs of port and range stays, however the ports are grouped. others are rules that
// always stay.
//
// With unique, two rules cannot share a protocol, a port and the text of a source range, as in CloudStack's firewall. A
// range that would conflict is then written as its two halves. A rule that is being deleted conflicts with nothing and
// opens nothing.
func Plan(ports map[string][]int, ranges []string, own, others []Rule, unique bool) Changes {
	var out Changes
	own = Sorted(own)
	want := sources{}
	for protocol, list := range ports {
		for _, n := range list {
			want[port{protocol, n}] = annotation.Canonical(ranges)
		}
	}

	missing := maps.Clone(want)
	var surplus []Rule
	for _, f := range own {
		cidrs := annotation.Canonical(f.CIDRs)
		useful := len(cidrs) > 0 && missing.every(f.Range, func(ranges []string) bool {
			return !slices.ContainsFunc(cidrs, func(c string) bool { return !slices.Contains(ranges, c) })
		})
		if f.Deleting || !useful {
			surplus = append(surplus, f)
			continue
		}

		for n := f.StartPort; n <= f.EndPort; n++ {
			p := port{f.Protocol, n}
			missing[p] = slices.DeleteFunc(slices.Clone(missing[p]),
				func(r string) bool { return slices.Contains(cidrs, r) })
		}
	}

	closing := map[string]bool{}
	for _, f := range surplus {
		closing[f.ID] = !want.every(f.Range, func(ranges []string) bool { return annotation.Contain(ranges, f.CIDRs) })
	}

	cover, open := split(want, missing, own, closing)
	for _, c := range group(cover) {
		if !unique {
			out.Cover = append(out.Cover, c)
			continue
		}

		if text, ok := rewrite(c, slices.Concat(others, surplus)); ok {
			out.Cover = append(out.Cover, text)
			continue
		}

		// A single address has no halves, so the rules that block it are deleted first.
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
			if closing[f.ID] && f.Overlaps(o) && len(annotation.Common(f.CIDRs, o.CIDRs)) > 0 {
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
	slices.SortStableFunc(out.Open, compare)
	return out
}

// split divides the missing access into what may be opened before anything is closed (early), and the rest (late).
// Early is what is open already, and, on ports where access only widens, what replaces a rule that is being closed.
func split(want, missing sources, own []Rule, closing map[string]bool) (early, late sources) {
	early, late = sources{}, sources{}
	for p, ranges := range missing {
		var open []string
		closes := false
		for _, f := range own {
			if f.Protocol == p.protocol && f.StartPort <= p.number && p.number <= f.EndPort {
				open = append(open, f.CIDRs...)
				closes = closes || closing[f.ID]
			}
		}

		open = annotation.Canonical(open)
		widens := closes && annotation.Contain(want[p], open)
		for _, r := range ranges {
			if widens || annotation.Contain(open, []string{r}) {
				early[p] = append(early[p], r)
			} else {
				late[p] = append(late[p], r)
			}
		}
	}

	return early, late
}

// rewrite writes the source ranges so that they conflict with none of the blockers; ok is false if that is impossible.
func rewrite(f Range, blockers []Rule) (out Range, ok bool) {
	taken := map[string]bool{}
	for _, b := range blockers {
		if b.Deleting || !f.Overlaps(b.Range) {
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

// group combines contiguous ports with the same source ranges into one rule.
func group(missing sources) []Range {
	var out []Range
	for _, p := range slices.SortedFunc(maps.Keys(missing), func(a, b port) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.number, b.number))
	}) {
		if n := len(out) - 1; n >= 0 &&
			out[n].Protocol == p.protocol &&
			out[n].EndPort == p.number-1 &&
			slices.Equal(out[n].CIDRs, missing[p]) {
			out[n].EndPort = p.number
			continue
		}
		out = append(out, Range{Protocol: p.protocol, StartPort: p.number, EndPort: p.number, CIDRs: missing[p]})
	}
	return out
}

// Sorted returns the rules in an order that does not depend on how CloudStack lists them.
func Sorted(in []Rule) []Rule {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b Rule) int { return cmp.Or(compare(a.Range, b.Range), cmp.Compare(a.ID, b.ID)) })
	return out
}

func compare(a, b Range) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.StartPort, b.StartPort),
		cmp.Compare(a.EndPort, b.EndPort),
		slices.Compare(annotation.Canonical(a.CIDRs), annotation.Canonical(b.CIDRs)))
}

// freeForm returns the shortest way to write a range with prefixes that are not taken: the range itself, its halves, or
// their halves.
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
			halves := annotation.Halves(p)
			if halves == nil {
				return []string{r}, false
			}
			next = append(next, halves...)
		}
		form = next
	}

	return []string{r}, false
}
