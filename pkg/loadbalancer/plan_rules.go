// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
)

type planner struct {
	desired Desired
	limits  Limits
	actions []Action
	claims  map[int]bool // see claims
}

// claims are the wanted ports without a rule of ours that a firewall rule of unknown origin covers. Whoever made it may
// use the port: only when CloudStack has given the port to our rule is it sure that nobody does, and that the firewall
// rule is ours to change. The rule is therefore made first, and gets its members when access to it is as wanted.
func claims(d Desired, target *Address) map[int]bool {
	if !d.Firewall || target.Internal {
		return nil
	}
	own := map[int]bool{}
	for _, r := range target.ownRules() {
		own[r.PublicPort] = true
	}
	wanted := wantedPorts(d.Rules)
	out := map[int]bool{}
	for _, f := range target.Firewall {
		if f.Going || !target.ownsFirewall(f, wanted) || target.ownsFirewall(f, nil) {
			continue
		}
		for port := f.StartPort; port <= f.EndPort; port++ {
			if !own[port] && slices.Contains(wanted[f.Protocol], port) {
				out[port] = true
			}
		}
	}
	return out
}

func (p *planner) add(a Action) {
	a.setLabel()
	p.actions = append(p.actions, a)
}

// reach plans the way to the desired state on the target.
func (p *planner) reach(target *Address) {
	opened := p.opened(target)
	if target == nil {
		p.add(Action{Kind: AllocateAddress, Wave: waveAddress, NetworkID: p.desired.NetworkID, VPCID: p.desired.VPCID, Internal: p.desired.Internal, IP: p.desired.Address, Opened: opened})
		target = &Address{NetworkID: p.desired.NetworkID, VPCID: p.desired.VPCID, Internal: p.desired.Internal, Recorded: true, Allocated: true, Tagged: true, Opened: opened}
	}
	p.sticky(target)
	if !p.limits.unclaimed {
		p.claims = claims(p.desired, target)
	}
	// The record names ports before they are opened, but not while they may be somebody else's.
	before := opened.without(p.claims).union(target.Opened)
	if !target.Recorded || !target.Opened.covers(opened.without(p.claims)) {
		p.remember(target, waveAddress, before)
	}
	if before = opened.union(target.Opened); len(p.claims) > 0 {
		p.remember(target, waveClaimed, before)
	}
	if target.Allocated && (!target.Tagged || target.FormerCluster) && !target.Internal && !p.limits.NoTags {
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
	p.tagRules(target)
	if p.desired.Firewall && !target.Internal {
		p.firewall(target)
	}
	if target.Quiet && !opened.covers(before) {
		p.remember(target, waveOldRelease, opened) // what was open for the others is closed by then
	}
}

// opened are the ports that the plan leaves open.
func (p *planner) opened(target *Address) OpenedPorts {
	if !p.desired.Firewall || p.desired.Internal || target != nil && target.Internal {
		return nil
	}
	return wantedPorts(p.desired.Rules)
}

func (p *planner) remember(target *Address, wave int, opened OpenedPorts) {
	var closed []string
	for _, a := range p.actions {
		if a.Kind == CloseFirewall {
			closed = append(closed, a.FirewallID)
		}
	}
	p.add(Action{
		Kind: RememberAddress, Wave: wave, AddressID: target.ID, IP: target.IP, NetworkID: target.NetworkID,
		Allocated: target.Allocated, Opened: opened, Replaces: closed,
	})
}

// sticky makes the record say that there may be stickiness policies before there is one.
func (p *planner) sticky(target *Address) {
	wanted := slices.ContainsFunc(p.desired.Rules, func(r Rule) bool { return r.Stickiness != nil })
	if wanted && !target.Sticky {
		target.Sticky, target.Recorded = true, false
	}
}

// tagRules tags all own rules that will be there and have no tags, with one call.
func (p *planner) tagRules(target *Address) {
	if p.limits.NoTags || target.Internal {
		return
	}
	tagged := map[int]bool{}
	for _, r := range target.ownRules() {
		tagged[r.PublicPort] = r.Tagged
	}
	for _, a := range p.actions {
		if a.Kind == CreateRule {
			tagged[a.Port] = false
		}
	}
	var ports []int
	for _, r := range p.desired.Rules {
		if !tagged[r.PublicPort] {
			ports = append(ports, r.PublicPort)
		}
	}
	if len(ports) > 0 {
		p.add(Action{Kind: TagRules, Wave: waveBuild, AddressID: target.ID, IP: target.IP, Ports: ports})
	}
}

// firewall plans the firewall rules of the target.
func (p *planner) firewall(target *Address) {
	wanted := wantedPorts(p.desired.Rules)
	var own []ActualFirewall
	var others []FirewallRange
	for _, f := range target.Firewall {
		switch {
		case target.ownsFirewall(f, wanted):
			own = append(own, f)
		case !f.Going:
			others = append(others, f.FirewallRange)
		}
	}
	s := lead(wish(p.desired.Rules, p.desired.Ranges), own, others, true)
	for i := range s.Cover {
		p.add(Action{Kind: OpenFirewall, Wave: waveCover, AddressID: target.ID, IP: target.IP, Firewall: &s.Cover[i]})
	}
	for _, f := range s.Close {
		p.closeFirewall(target, f, waveClose)
	}
	for i := range s.Open {
		p.add(Action{Kind: OpenFirewall, Wave: waveBuild, AddressID: target.ID, IP: target.IP, Firewall: &s.Open[i], Replaces: gapBefore(s, s.Open[i])})
	}
	for _, f := range s.Trim {
		p.closeFirewall(target, f, waveTrim)
	}
}

// gapBefore are the rules that are closed before one is opened that lets some of the same sources in again.
func gapBefore(s steps, open FirewallRange) []string {
	var out []string
	for _, f := range s.Close {
		if slices.Contains(s.Gap, f.ID) && f.overlaps(open) {
			out = append(out, f.ID)
		}
	}
	return out
}

func (p *planner) closeFirewall(a *Address, f ActualFirewall, wave int) {
	r := f.FirewallRange
	p.add(Action{Kind: CloseFirewall, Wave: wave, AddressID: a.ID, IP: a.IP, FirewallID: f.ID, Firewall: &r})
}

func (p *planner) createRule(target *Address, want Rule, replaces ...string) {
	act := Action{Wave: waveBuild, AddressID: target.ID, IP: target.IP, NetworkID: p.desired.NetworkID, Internal: target.Internal, Port: want.PublicPort, Rule: &want, Replaces: replaces}
	act.Kind = CreateRule
	create := act
	if p.claims[want.PublicPort] {
		create.Wave = waveClaim
	}
	p.add(create)
	p.extras(act, ActualRule{})
	if p.unproven(want) {
		return // members come when the rule was read back with its source ranges
	}
	if len(p.desired.Members) > 0 {
		p.add(Action{Kind: AddMembers, Wave: waveBuild, AddressID: target.ID, IP: target.IP, Port: want.PublicPort, Members: p.desired.Members, Replaces: replaces})
	}
}

// unproven tells whether a rule would let everybody in if the server ignored its
// source ranges, as it does before 4.18, and it is not known that it does not.
func (p *planner) unproven(want Rule) bool {
	return p.desired.CIDRsDecide && !p.limits.CIDRsProven && !sameRanges(want.CIDRs, []string{annotation.Anyone})
}

// extras plans stickiness and certificate of a rule.
func (p *planner) extras(act Action, have ActualRule) {
	want := act.Rule
	switch {
	case want.Stickiness != nil && !want.Stickiness.Equal(have.Stickiness):
		act.Kind = SetStickiness
		p.add(act)
	case want.Stickiness == nil && have.PolicyID != "":
		drop := act
		drop.Kind, drop.PolicyID = DropStickiness, have.PolicyID
		p.add(drop)
	}
	if want.Certificate != "" && want.Certificate != have.Certificate {
		act.Kind = BindCertificate
		p.add(act)
	}
}

func (p *planner) deleteRule(target *Address, have ActualRule, wave int, note string) {
	p.add(Action{Kind: DeleteRule, Wave: wave, AddressID: target.ID, IP: target.IP, Internal: target.Internal, RuleID: have.ID, Port: have.PublicPort, Note: note})
}

// changeRule leads one rule to its desired form, in place where CloudStack can.
func (p *planner) changeRule(target *Address, want Rule, have ActualRule) {
	// A rule without a list (made by an older provider, or by a server that has none) is left as it is where a
	// firewall filters. A list that was emptied filters nothing.
	haveCIDRs := have.CIDRs
	if haveCIDRs != nil && len(haveCIDRs) == 0 || haveCIDRs == nil && p.desired.CIDRsDecide && !p.limits.NoCIDRs {
		haveCIDRs = []string{annotation.Anyone}
	}
	cidrsDiffer := want.CIDRs != nil && haveCIDRs != nil && !target.Internal && !sameRanges(want.CIDRs, haveCIDRs)
	inPlace := len(want.CIDRs) <= 1 && !p.limits.NoCIDRUpdate
	if cidrsDiffer && !inPlace && have.Adopted && p.desired.Firewall && containsRanges(haveCIDRs, want.CIDRs) {
		cidrsDiffer = false // the firewall filters: no reason to tear a rule down at takeover
	}
	note := ""
	switch {
	case have.PrivatePort != want.PrivatePort:
		note = "its node port changed, and the ports of a rule cannot"
	case have.State == stateDeleting:
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
	if protocolDiffers || have.Algorithm != want.Algorithm || cidrsDiffer {
		update := want
		if !cidrsDiffer {
			update.CIDRs = nil
		}
		p.add(Action{Kind: UpdateRule, Wave: waveBuild, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Rule: &update})
	}
	p.extras(Action{Wave: waveBuild, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Rule: &want}, have)
	members := p.desired.Members
	if p.limits.NoCIDRs && p.desired.CIDRsDecide && !sameRanges(want.CIDRs, []string{annotation.Anyone}) {
		members = nil // the rule would let everybody in
	}
	add, remove := difference(members, have.Members)
	if len(add) > 0 {
		p.add(Action{Kind: AddMembers, Wave: waveBuild, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Members: add})
	}
	if len(remove) > 0 {
		p.add(Action{Kind: RemoveMembers, Wave: waveTrim, AddressID: target.ID, IP: target.IP, RuleID: have.ID, Port: have.PublicPort, Members: remove})
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
