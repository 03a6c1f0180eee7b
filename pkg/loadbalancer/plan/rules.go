// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// reach plans the desired state on the target, or on a new address without one.
func (p *planner) reach(target *Address) {
	opened, forwarded := p.opened(target), p.desired.Forwarded()
	if target == nil {
		d := p.desired
		p.add(waveAddress, AllocateAddress{NetworkID: d.NetworkID, VPCID: d.VPCID, Internal: d.Internal, IP: d.Address, FirewallPorts: opened, ForwardPorts: forwarded})
		target = &Address{
			NetworkID: d.NetworkID, VPCID: d.VPCID, Internal: d.Internal, Recorded: true, Allocated: true, Tagged: true, FirewallPorts: opened, ForwardPorts: forwarded,
		}
	}
	if !p.limits.Unclaimed {
		p.claims = claims(p.desired, target)
	}
	// The record names ports before they are opened, but not while they may be somebody else's.
	before, mayForward := opened.without(p.claims).union(target.FirewallPorts), forwarded.union(target.ForwardPorts)
	recorded := target.Recorded && (target.HasStickiness || !p.desired.HasStickiness())
	if !recorded || !target.FirewallPorts.covers(opened.without(p.claims)) || !target.ForwardPorts.covers(forwarded) {
		p.remember(target, waveAddress, before, mayForward)
	}
	if before = opened.union(target.FirewallPorts); len(p.claims) > 0 {
		p.remember(target, waveClaimed, before, mayForward)
	}
	if target.Allocated && (!target.Tagged || target.FormerCluster) && !target.Internal && !p.limits.NoTags {
		p.add(waveBuild, TagAddress{OnAddress: target.on()})
	}
	own := map[int]ActualRule{}
	for _, r := range target.OwnRules() {
		own[r.PublicPort] = r
	}
	for _, want := range p.desired.Rules {
		if have, ok := own[want.PublicPort]; ok {
			delete(own, want.PublicPort)
			p.changeRule(target, want, have)
			continue
		}
		p.createRule(target, want, target.forwardsOn(want.PublicPort)...)
	}
	for _, port := range slices.Sorted(maps.Keys(own)) {
		p.deleteRule(target, own[port], waveDelete, "")
	}
	p.tagRules(target)
	if !target.Internal {
		p.forwards(target)
	}
	if p.desired.Firewall && !target.Internal {
		p.firewall(target)
	}
	if target.Settled && (!opened.covers(before) || !forwarded.covers(mayForward)) {
		p.remember(target, waveOldRelease, opened, forwarded) // the other ports are closed by then
	}
}

// opened are the ports that the plan leaves open.
func (p *planner) opened(target *Address) PortSet {
	if !p.desired.Firewall || p.desired.Internal || target != nil && target.Internal {
		return nil
	}
	return p.desired.Opened()
}

func (p *planner) remember(target *Address, wave int, opened, forwarded PortSet) {
	var closed []string
	for _, s := range p.steps {
		if c, ok := s.Action.(CloseFirewall); ok {
			closed = append(closed, c.FirewallID)
		}
	}
	p.add(wave, RememberAddress{OnAddress: target.on(), NetworkID: target.NetworkID, Allocated: target.Allocated, FirewallPorts: opened, ForwardPorts: forwarded}, closed...)
}

// tagRules tags all own rules that will be there and have no tags, with one call.
func (p *planner) tagRules(target *Address) {
	if p.limits.NoTags || target.Internal {
		return
	}
	tagged := map[int]bool{}
	for _, r := range target.OwnRules() {
		tagged[r.PublicPort] = r.Tagged
	}
	for _, s := range p.steps {
		if c, ok := s.Action.(CreateRule); ok {
			tagged[c.Port] = false
		}
	}
	tags := TagRules{OnAddress: target.on()}
	for _, r := range p.desired.Rules {
		if !tagged[r.PublicPort] {
			tags.Ports = append(tags.Ports, r.PublicPort)
		}
	}
	if len(tags.Ports) > 0 {
		p.add(waveBuild, tags)
	}
}

// firewall plans the firewall rules of the target.
func (p *planner) firewall(target *Address) {
	wanted := p.desired.Opened()
	var own []access.Rule
	var others []access.Range
	for _, f := range target.Firewall {
		switch {
		case target.OwnsFirewall(f, wanted):
			own = append(own, f)
		case !f.Deleting:
			others = append(others, f.Range)
		}
	}
	open := func(f access.Range) Action { return OpenFirewall{OnAddress: target.on(), Firewall: f} }
	p.access(access.Plan(access.For(wanted, p.desired.Ranges), own, others, true), open, target.closing)
}

func (p *planner) createRule(target *Address, want Rule, replaces ...string) {
	wave := waveBuild
	if p.claims[want.PublicPort] {
		wave = waveClaim
	}
	on := target.onRule("", want.PublicPort)
	p.add(wave, CreateRule{OnRule: on, NetworkID: p.desired.NetworkID, Internal: target.Internal, Rule: want, Switched: target.ID != "" && len(target.forwardsOn(want.PublicPort)) > 0}, replaces...)
	p.extras(on, want, ActualRule{}, p.desired.NetworkID, replaces...)
	// Without proof the members come when the rule was read back with its source ranges.
	if len(p.desired.Members) > 0 && !p.unproven(want) {
		p.add(waveBuild, AddMembers{OnRule: on, Members: p.desired.Members}, replaces...)
	}
}

// unproven reports whether a rule would let everybody in if the server ignored its
// source ranges, as it does before 4.18, and it is not known that it does not.
func (p *planner) unproven(want Rule) bool {
	return p.desired.CIDRsDecide && !p.limits.CIDRsProven && !access.Same(want.CIDRs, []string{annotation.Anyone})
}

// extras plans stickiness and certificate of a rule.
func (p *planner) extras(on OnRule, want Rule, have ActualRule, networkID string, replaces ...string) {
	switch {
	case want.Stickiness != nil && !want.Stickiness.Equal(have.Stickiness):
		p.add(waveBuild, SetStickiness{OnRule: on, NetworkID: networkID, Rule: want}, replaces...)
	case want.Stickiness == nil && have.PolicyID != "":
		p.add(waveBuild, DropStickiness{OnRule: on, Rule: want, PolicyID: have.PolicyID}, replaces...)
	}
	if want.Certificate != "" && want.Certificate != have.Certificate {
		p.add(waveBuild, BindCertificate{OnRule: on, NetworkID: networkID, Rule: want}, replaces...)
	}
}

func (p *planner) deleteRule(target *Address, have ActualRule, wave int, note string) {
	p.add(wave, DeleteRule{OnRule: target.onRule(have.ID, have.PublicPort), Internal: target.Internal, Note: note})
}

// changeRule plans the changes of one rule, in place where CloudStack can.
func (p *planner) changeRule(target *Address, want Rule, have ActualRule) {
	// A rule without a list (made by an older provider, or by a server that has none) is left as it is where a
	// firewall filters. A list that was emptied filters nothing.
	haveCIDRs := have.CIDRs
	if haveCIDRs != nil && len(haveCIDRs) == 0 || haveCIDRs == nil && p.desired.CIDRsDecide && !p.limits.NoCIDRs {
		haveCIDRs = []string{annotation.Anyone}
	}
	cidrsDiffer := want.CIDRs != nil && haveCIDRs != nil && !target.Internal && !access.Same(want.CIDRs, haveCIDRs)
	inPlace := len(want.CIDRs) <= 1 && !p.limits.NoCIDRUpdate
	if cidrsDiffer && !inPlace && have.Adopted && p.desired.Firewall && access.Contain(haveCIDRs, want.CIDRs) {
		cidrsDiffer = false // the firewall filters: no reason to tear a rule down at takeover
	}
	note := ""
	switch {
	case have.PrivatePort != want.PrivatePort:
		note = "its node port changed, and the ports of a rule cannot"
	case have.State == StateDeleting:
		note = "an earlier deletion of it did not end"
	case target.Internal && have.Algorithm != want.Algorithm:
		note = "its algorithm changed, and that of an internal load balancer cannot"
	case cidrsDiffer && !inPlace:
		note = "its source ranges changed, which cannot be done in place"
	}
	if note != "" {
		p.deleteRule(target, have, waveDelete, note)
		p.createRule(target, want, have.ID)
		return
	}
	// A rule without protocol, as older providers made them, is a TCP rule.
	protocolDiffers := cmp.Or(have.Protocol, ProtocolTCP) != want.Protocol
	if want.Protocol != ProtocolSSL || protocolDiffers {
		have.Certificate = ""
	}
	on := target.onRule(have.ID, have.PublicPort)
	if protocolDiffers || have.Algorithm != want.Algorithm || cidrsDiffer || timeoutsDiffer(want, have.Rule) {
		update := want
		if !cidrsDiffer {
			update.CIDRs = nil
		}
		p.add(waveBuild, UpdateRule{OnRule: on, Rule: update})
	}
	p.extras(on, want, have, "")
	members := p.desired.Members
	if p.limits.NoCIDRs && p.desired.CIDRsDecide && !access.Same(want.CIDRs, []string{annotation.Anyone}) {
		members = nil // the rule would let everybody in
	}
	add, remove := difference(members, have.Members)
	if len(add) > 0 {
		p.add(waveBuild, AddMembers{OnRule: on, Members: add})
	}
	if len(remove) > 0 {
		p.add(waveTrim, RemoveMembers{OnRule: on, Members: remove})
	}
}

// difference returns what is only in want and what is only in have.
func difference(want, have []string) (add, remove []string) {
	want, have = ordered(want), ordered(have)
	for len(want) > 0 && len(have) > 0 {
		switch cmp.Compare(want[0], have[0]) {
		case 0:
			want, have = want[1:], have[1:]
		case -1:
			add, want = append(add, want[0]), want[1:]
		case 1:
			remove, have = append(remove, have[0]), have[1:]
		}
	}
	return append(add, want...), append(remove, have...)
}
