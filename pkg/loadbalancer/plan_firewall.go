// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// firewall plans the firewall rules of the target. What is wanted is a set of
// (port, range) pairs. A rule that opens wanted pairs only is kept however it
// is cut; other rules of ours are closed; what no kept rule covers is opened,
// contiguous ports with the same missing ranges as one rule.
func (p *planner) firewall(target *Address) {
	ports := p.desired.Ports()
	ranges := canonicalRanges(p.desired.Ranges)
	missing := map[int][]string{}
	for _, port := range ports {
		missing[port] = slices.Clone(ranges)
	}
	var surplus []ActualFirewall
	for _, f := range sortedFirewall(target.Firewall) {
		if !target.ownsFirewall(f, ports) {
			continue
		}
		if keepFirewall(f, missing) {
			for port := f.StartPort; port <= f.EndPort; port++ {
				missing[port] = slices.DeleteFunc(missing[port], func(r string) bool { return slices.Contains(canonicalRanges(f.CIDRs), r) })
			}
			continue
		}
		surplus = append(surplus, f)
	}
	opens := groupPorts(missing)
	closedFirst := map[string]bool{}
	for _, f := range surplus {
		wave := waveTrim
		if closeFirst(f, opens) {
			wave = waveClose
			closedFirst[f.ID] = true
		}
		p.closeFirewall(target, f, wave)
	}
	for i := range opens {
		var replaces []string
		for _, f := range surplus {
			if closedFirst[f.ID] && f.overlaps(opens[i]) {
				replaces = append(replaces, f.ID)
			}
		}
		p.add(Action{Kind: OpenFirewall, Wave: waveBuild, AddressID: target.ID, IP: target.IP, Firewall: &opens[i], Replaces: replaces})
	}
}

func (p *planner) closeFirewall(a *Address, f ActualFirewall, wave int) {
	r := f.FirewallRange
	p.add(Action{Kind: CloseFirewall, Wave: wave, AddressID: a.ID, IP: a.IP, FirewallID: f.ID, Firewall: &r})
}

// keepFirewall tells whether all that the rule opens is still missing.
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

// closeFirst tells whether a rule must be closed before others are opened:
// because it opens something that shall be closed, or because CloudStack
// refuses a rule that shares a port and a range with it. Only when wider rules
// take over all of it does it go last.
func closeFirst(f ActualFirewall, opens []FirewallRange) bool {
	for _, o := range opens {
		if !f.overlaps(o) {
			continue
		}
		for _, c := range canonicalRanges(f.CIDRs) {
			if slices.Contains(o.CIDRs, c) {
				return true
			}
		}
	}
	for port := f.StartPort; port <= f.EndPort; port++ {
		covered := slices.ContainsFunc(opens, func(o FirewallRange) bool {
			return o.StartPort <= port && port <= o.EndPort && containsRanges(o.CIDRs, f.CIDRs)
		})
		if !covered {
			return true
		}
	}
	return false
}

// containsRanges tells whether every inner range lies within one of the outer.
func containsRanges(outer, inner []string) bool {
	out, _, err1 := annotation.ParseRanges(outer)
	in, _, err2 := annotation.ParseRanges(inner)
	if err1 != nil || err2 != nil {
		return false
	}
	for _, i := range in {
		if !slices.ContainsFunc(out, func(o netip.Prefix) bool { return o.Bits() <= i.Bits() && o.Contains(i.Addr()) }) {
			return false
		}
	}
	return true
}

func groupPorts(missing map[int][]string) []FirewallRange {
	ports := make([]int, 0, len(missing))
	for port, ranges := range missing {
		if len(ranges) > 0 {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	var out []FirewallRange
	for _, port := range ports {
		if n := len(out); n > 0 && out[n-1].EndPort == port-1 && slices.Equal(out[n-1].CIDRs, missing[port]) {
			out[n-1].EndPort = port
			continue
		}
		out = append(out, FirewallRange{Protocol: ProtocolTCP, StartPort: port, EndPort: port, CIDRs: missing[port]})
	}
	return out
}

// canonicalRanges masks, sorts and deduplicates; what does not parse stays as it is.
func canonicalRanges(in []string) []string {
	out := make([]string, 0, len(in))
	for _, r := range in {
		if v4, _, err := annotation.ParseRanges([]string{r}); err == nil && len(v4) == 1 {
			r = v4[0].String()
		}
		out = append(out, r)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func sortedFirewall(in []ActualFirewall) []ActualFirewall {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b ActualFirewall) int {
		return cmp.Or(cmp.Compare(a.StartPort, b.StartPort), cmp.Compare(a.EndPort, b.EndPort), slices.Compare(canonicalRanges(a.CIDRs), canonicalRanges(b.CIDRs)), cmp.Compare(a.ID, b.ID))
	})
	return out
}
