// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

// Limits are what the server or the role was found not to do.
type Limits struct {
	// NoTags: the role may not tag.
	NoTags bool
	// NoCIDRUpdate: the server ignores cidrlist in updateLoadBalancerRule (before 4.22).
	NoCIDRUpdate bool
}

// Plan says what leads from the actual to the desired state, in order. It
// does not depend on the order of its inputs' lists; Plan of what it leads to is empty.
//
// Order: what tightens access comes first and what opens it last; members are
// added before others are removed; a rule is deleted before its successor is
// created only because CloudStack gives a port to one rule; an old address
// goes when the new one serves.
func Plan(d Desired, a Actual, limits Limits) []Action {
	d.Rules = slices.SortedFunc(slices.Values(d.Rules), func(x, y Rule) int { return cmp.Compare(x.PublicPort, y.PublicPort) })
	d.Members = slices.Compact(slices.Sorted(slices.Values(d.Members)))
	p := planner{desired: d, limits: limits}
	addresses := sortAddresses(a.Addresses)
	target := chooseTarget(d, Actual{Addresses: addresses})
	if !d.Absent {
		p.reach(target)
	}
	for i := range addresses {
		if target == nil || addresses[i].ID != target.ID {
			p.leave(&addresses[i])
		}
	}
	slices.SortStableFunc(p.actions, func(x, y Action) int { return cmp.Compare(x.Wave, y.Wave) })
	return p.actions
}

// chooseTarget is the address that shall serve; nil when one has to be acquired.
func chooseTarget(d Desired, a Actual) *Address {
	if d.Absent {
		return nil
	}
	var best *Address
	score := func(x *Address) int {
		n := 0
		for _, r := range x.ownRules() {
			if slices.Contains(d.Ports(), r.PublicPort) {
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
			if x.IP == d.Address {
				return x
			}
			continue
		}
		usable := !x.ForeignCluster && x.State != stateReleasing && !x.StaticNAT && x.VPCID == "" &&
			(x.NetworkID == "" || d.NetworkID == "" || x.NetworkID == d.NetworkID)
		if !usable || (!x.ours() && !x.InStatus) {
			continue
		}
		if best == nil || score(x) > score(best) {
			best = x
		}
	}
	return best
}

type planner struct {
	desired Desired
	limits  Limits
	actions []Action
}

func (p *planner) add(a Action) {
	a.setLabel()
	p.actions = append(p.actions, a)
}

// reach plans the way to the desired state on the target.
func (p *planner) reach(target *Address) {
	if target == nil {
		p.add(Action{Kind: AllocateAddress, Wave: waveAddress, NetworkID: p.desired.NetworkID, IP: p.desired.Address})
		target = &Address{NetworkID: p.desired.NetworkID, Recorded: true, Allocated: true, Tagged: true}
	}
	if !target.Recorded {
		p.add(Action{Kind: RememberAddress, Wave: waveAddress, AddressID: target.ID, IP: target.IP, NetworkID: target.NetworkID, Allocated: target.Allocated})
	}
	if target.Allocated && !target.Tagged && !p.limits.NoTags {
		p.add(Action{Kind: TagAddress, Wave: waveBuild, AddressID: target.ID, IP: target.IP})
	}
	own := map[int]ActualRule{}
	for _, r := range target.ownRules() {
		own[r.PublicPort] = r
	}
	for i := range p.desired.Rules {
		want := p.desired.Rules[i]
		if have, ok := own[want.PublicPort]; ok {
			delete(own, want.PublicPort)
			p.changeRule(target, want, have)
			continue
		}
		p.createRule(target, want)
	}
	for _, port := range sortedKeys(own) {
		p.deleteRule(target, own[port], waveDelete, "")
	}
	p.firewall(target)
}

func (p *planner) createRule(target *Address, want Rule, replaces ...string) {
	p.add(Action{Kind: CreateRule, Wave: waveBuild, AddressID: target.ID, IP: target.IP, Port: want.PublicPort, Rule: &want, Replaces: replaces})
	if len(p.desired.Members) > 0 {
		p.add(Action{Kind: AddMembers, Wave: waveBuild, AddressID: target.ID, IP: target.IP, Port: want.PublicPort, Members: p.desired.Members, Replaces: replaces})
	}
}

func (p *planner) deleteRule(target *Address, have ActualRule, wave int, note string) {
	p.add(Action{Kind: DeleteRule, Wave: wave, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Note: note})
}

// changeRule leads one rule to its desired form, in place where CloudStack can.
func (p *planner) changeRule(target *Address, want Rule, have ActualRule) {
	// A rule without a list (made by an older provider, or by a server that has none) is left as it is: the
	// firewall filters. A list that was emptied filters nothing.
	haveCIDRs := have.CIDRs
	if haveCIDRs != nil && len(haveCIDRs) == 0 {
		haveCIDRs = []string{annotation.Anyone}
	}
	cidrsDiffer := want.CIDRs != nil && haveCIDRs != nil && !sameRanges(want.CIDRs, haveCIDRs)
	note := ""
	switch {
	case have.PrivatePort != want.PrivatePort:
		note = "its node port changed, and the ports of a rule cannot"
	case have.State == "Deleting":
		note = "an earlier deletion of it did not end"
	case cidrsDiffer && (len(want.CIDRs) > 1 || p.limits.NoCIDRUpdate):
		note = "its source ranges changed, which cannot be done in place"
	}
	if note != "" {
		p.deleteRule(target, have, waveDelete, note)
		p.createRule(target, want, have.ID)
		return
	}
	// A rule without protocol, as older providers made them, is a TCP rule.
	protocolDiffers := cmp.Or(have.Protocol, ProtocolTCP) != want.Protocol
	if protocolDiffers || have.Algorithm != want.Algorithm || cidrsDiffer {
		update := want
		if !cidrsDiffer {
			update.CIDRs = nil
		}
		p.add(Action{Kind: UpdateRule, Wave: waveBuild, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Rule: &update})
	}
	add, remove := difference(p.desired.Members, have.Members)
	if len(add) > 0 {
		p.add(Action{Kind: AddMembers, Wave: waveBuild, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Members: add})
	}
	if len(remove) > 0 {
		p.add(Action{Kind: RemoveMembers, Wave: waveTrim, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Members: remove})
	}
}

// leave plans the way to nothing of ours on an address.
func (p *planner) leave(a *Address) {
	if !a.ours() {
		return
	}
	exclusive, why := a.exclusive(nil)
	if a.Allocated && exclusive && !p.desired.KeepAddress {
		// Releasing removes the address's rules with it.
		p.add(Action{Kind: ReleaseAddress, Wave: waveOldRelease, AddressID: a.ID, IP: a.IP})
		return
	}
	for _, f := range sortedFirewall(a.Firewall) {
		if a.ownsFirewall(f, nil) {
			p.closeFirewall(a, f, waveOldClose)
		}
	}
	rules := a.ownRules()
	slices.SortFunc(rules, func(x, y ActualRule) int { return cmp.Compare(x.PublicPort, y.PublicPort) })
	for _, r := range rules {
		p.deleteRule(a, r, waveOldDelete, "")
	}
	if a.Recorded || a.Owner == Mine {
		switch {
		case !a.Allocated:
			why = "it was not acquired by this controller"
		case p.desired.KeepAddress:
			why = "annotation " + annotation.KeepIP + " is set"
		}
		p.add(Action{Kind: ForgetAddress, Wave: waveOldRelease, AddressID: a.ID, IP: a.IP, Note: why})
	}
}

func sortedKeys(m map[int]ActualRule) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// difference returns what is only in want and what is only in have.
func difference(want, have []string) (add, remove []string) {
	for _, w := range want {
		if !slices.Contains(have, w) {
			add = append(add, w)
		}
	}
	for _, h := range have {
		if !slices.Contains(want, h) {
			remove = append(remove, h)
		}
	}
	slices.Sort(add)
	slices.Sort(remove)
	return slices.Compact(add), slices.Compact(remove)
}

func sameRanges(a, b []string) bool { return slices.Equal(canonicalRanges(a), canonicalRanges(b)) }
