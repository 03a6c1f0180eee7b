// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Plan returns the steps that turn the actual state into the desired one, and the address that will serve: one of the
// actual addresses, or nil if one has to be acquired or none is wanted. The result does not depend on the order of the
// lists in its inputs. Once the steps are done, the next plan is empty.
//
// The order of the steps:
// - Replacements that open nothing new come first, then steps that tighten access, and only then steps that widen it.
// - Members are added before others are removed.
// - A rule is deleted before its replacement is created only if CloudStack requires it, because a port has one rule.
// - An old address is given up after the new one serves.
func Plan(d Desired, a Actual, limits Limits) ([]Step, *Address) {
	d.Rules = slices.SortedFunc(slices.Values(d.Rules),
		func(x, y Rule) int { return cmp.Compare(x.PublicPort, y.PublicPort) })
	d.Members, d.Serving = ordered(d.Members), ordered(d.Serving)
	p := planner{desired: d, limits: limits}
	target := Target(d, a)
	if !d.Absent {
		p.reach(target)
	}

	for _, x := range sortAddresses(a.Addresses) {
		if target == nil || x.ID != target.ID {
			p.leave(&x)
		}
	}

	p.acls(a)
	p.replace()
	return p.ordered(), target
}

type planner struct {
	desired Desired
	limits  Limits
	steps   []Step
}

// ordered returns the steps, those of earlier waves first.
func (p *planner) ordered() []Step {
	slices.SortStableFunc(p.steps, func(x, y Step) int { return cmp.Compare(x.Wave, y.Wave) })
	return p.steps
}

func (p *planner) add(wave int, s Step, replaces ...string) {
	s.Wave, s.Replaces = wave, replaces
	p.steps = append(p.steps, s)
}

// replace sets, for each new item, which load balancer rules and port forwardings must be gone before it can be
// created: CloudStack uses a port number either for rules or for forwardings, whatever their protocols. An address of a
// network without conserve mode has only one of the two kinds at all.
func (p *planner) replace() {
	removals := slices.DeleteFunc(slices.Clone(p.steps), func(s Step) bool { return s.removes() == "" || s.Port == 0 })
	for i := range p.steps {
		s := &p.steps[i]
		for _, d := range removals {
			samePort := d.Port == s.Port && (d.OnRule() || s.OnRule() || d.Protocol == s.Protocol)
			otherPurpose := p.desired.OnePurpose &&
				d.OnRule() != s.OnRule() &&
				(s.Kind == CreateRule || s.Kind == CreateForward)
			if s.ItemID == "" && d.AddressID == s.AddressID && (samePort || otherPurpose) {
				s.Replaces = append(s.Replaces, d.ItemID)
			}
		}
	}
}

func (a *Address) on() On { return On{AddressID: a.ID, IP: a.IP} }

// access adds the steps that change firewall rules or ACL items.
func (p *planner) access(c access.Changes, on On) {
	for _, r := range c.Cover {
		p.add(waveCover, on.opening(r))
	}
	for _, f := range c.Close {
		p.add(waveClose, on.closing(f))
	}
	for _, r := range c.Open {
		p.add(waveBuild, on.opening(r), c.GapBefore(r)...)
	}
	for _, f := range c.Trim {
		p.add(waveTrim, on.closing(f))
	}
}

// opening returns the step that creates a firewall rule, or an item of a network ACL list.
func (o On) opening(r access.Range) Step {
	if o.ACLID != "" {
		return Step{Kind: OpenACL, On: o, Access: r}
	}
	return Step{Kind: OpenFirewall, On: o, Access: r}
}

// closing returns the step that deletes a firewall rule, or an item of a network ACL list.
func (o On) closing(f access.Rule) Step {
	if o.ACLID != "" {
		return Step{Kind: CloseACL, On: o, ItemID: f.ID, Access: f.Range}
	}
	return Step{Kind: CloseFirewall, On: o, ItemID: f.ID, Access: f.Range}
}

// tag adds a step that tags all items of one type that remain or are created and lack our tags. New items are always on
// the address that serves, or in the ACL list of the Service's tier.
func (p *planner) tag(kind string, on On, own []Item) {
	untagged, n := map[string]bool{}, 0
	for _, item := range own {
		if !item.Deleting && (!item.Tagged || item.Former) {
			untagged[item.ID] = true
		}
	}
	for _, s := range p.steps {
		if s.Makes() == kinds[kind].resource {
			n++
		}
		delete(untagged, s.removes())
	}
	if n += len(untagged); n > 0 && !p.limits.NoTags {
		p.add(waveBuild, Step{Kind: kind, On: on, Items: n})
	}
}

// ordered returns a list sorted and without duplicates. It returns the list itself if it is so already.
func ordered(list []string) []string {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			list = slices.Clone(list)
			slices.Sort(list)
			return slices.Compact(list)
		}
	}
	return list
}

// Target returns the address that should serve; nil if one has to be acquired.
func Target(d Desired, a Actual) *Address {
	if d.Absent {
		return nil
	}

	var best *Address
	score := func(x *Address) int {
		n := 0
		for _, i := range append(x.OwnRules(), x.OwnForwards()...) {
			if slices.Contains(d.Ports(), i.StartPort) {
				n += 10
			}
		}
		for _, has := range []bool{x.Recorded, x.Allocated, x.InStatus} {
			if has {
				n++
			}
		}
		return n
	}

	addresses := sortAddresses(a.Addresses)
	for i := range addresses {
		x := &addresses[i]
		if d.Address != "" {
			if x.IP == d.Address && x.Internal == d.Internal {
				return x
			}
			continue
		}
		if !x.usable(d) || (!x.Ours() && !x.InStatus) {
			continue
		}
		if best == nil || score(x) > score(best) {
			best = x
		}
	}

	return best
}

// usable reports whether an address can serve a Service that does not request an address.
func (a *Address) usable(d Desired) bool {
	switch {
	case a.ForeignCluster, a.Lost, a.State == StateReleasing, a.StaticNAT, a.Internal != d.Internal,
		a.Internal && a.Refusal != nil && !a.InStatus: // CloudStack has chosen the address of another Service
		return false
	case d.NetworkID != "" && a.NetworkID != "" && a.NetworkID != d.NetworkID:
		return false
	case a.Internal || d.NetworkID == "":
		return true
	}
	// A rule on the source NAT address of a VPC would take the source NAT from it.
	return a.VPCID == d.VPCID && (a.VPCID == "" || !a.SourceNAT)
}
