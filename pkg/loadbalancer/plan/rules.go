// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// reach plans the steps to the desired state on the target. A nil target means a new address.
func (p *planner) reach(target *Address) {
	if target == nil {
		d := p.desired
		p.add(waveAddress,
			Step{
				Kind:      AllocateAddress,
				On:        On{IP: d.Address},
				NetworkID: d.NetworkID,
				VPCID:     d.VPCID,
				Internal:  d.Internal,
			})
		target = &Address{NetworkID: d.NetworkID, VPCID: d.VPCID, Internal: d.Internal, Recorded: true, Allocated: true}
	}

	p.tagAddress(target)
	own := map[int]Item{}
	for _, r := range target.OwnRules() {
		own[r.StartPort] = r
	}

	for _, want := range p.desired.Rules {
		if have, ok := own[want.PublicPort]; ok {
			delete(own, want.PublicPort)
			p.changeRule(target, want, have)
			continue
		}
		p.createRule(target, want)
	}

	for _, port := range slices.Sorted(maps.Keys(own)) {
		p.deleteRule(target, own[port], waveDelete, "")
	}

	if !target.Internal {
		p.forwards(target)
	}

	p.tag(TagRules, target.on(), target.OwnRules())
	p.tag(TagForwards, target.on(), target.OwnForwards())
	if p.desired.Firewall && !target.Internal && !target.FirewallUnread {
		p.firewall(target)
		p.tag(TagFirewall, target.on(), target.firewall(true))
	}
}

// tagAddress plans the tags that name the owner of an address. An address that the cluster did not acquire gets them
// late, when it serves.
func (p *planner) tagAddress(a *Address) {
	wave := waveBuild
	if !a.Allocated {
		wave = waveTrim
	}
	marked := slices.Contains(a.OwnTags, TagKeepIP)
	unchanged := marked
	if !p.desired.Absent {
		unchanged = p.desired.KeepAddress
	}
	if a.tagged() && (!a.Tagged || a.FormerCluster || unchanged != marked) && !p.limits.NoTags {
		p.add(wave, Step{Kind: TagAddress, On: a.on(), Keep: unchanged})
	}
}

// firewall plans the firewall rules of the target.
func (p *planner) firewall(target *Address) {
	own, others := rulesOf(target.firewall(true)), rulesOf(target.firewall(false))
	p.access(access.Plan(p.desired.Opened(), p.desired.Ranges, own, others, true), target.on())
}

func (p *planner) createRule(target *Address, want Rule) {
	on, port := target.on(), want.PublicPort
	if want.CIDRs == nil && !target.Internal {
		// Access is denied by the firewall, or because the rule has no members. A list, even of all addresses, lets a
		// later read show whether the server supports source ranges of rules.
		want.CIDRs = []string{annotation.Anyone}
	}
	p.add(waveBuild, Step{Kind: CreateRule, On: on, Port: port, Internal: target.Internal, Rule: want})
	p.extras(on, want, Item{})
	if len(p.desired.Members) > 0 {
		p.add(waveBuild, Step{
			Kind: AddMembers, On: on, Port: port, Members: p.desired.Members, Wanted: p.desired.Members,
		})
	}
}

// extras plans the stickiness policy and the certificate of a rule.
func (p *planner) extras(on On, want Rule, have Item) {
	id, port := have.ID, want.PublicPort
	switch {
	case have.ExtrasUnread:
		return
	case want.Stickiness != nil && !want.Stickiness.Equal(have.Stickiness):
		p.add(waveBuild, Step{Kind: SetStickiness, On: on, ItemID: id, Port: port, Rule: want})
	case want.Stickiness == nil && have.PolicyID != "":
		p.add(waveBuild, Step{Kind: DeleteStickiness, On: on, ItemID: id, Port: port, PolicyID: have.PolicyID})
	}
	if want.Certificate != "" && want.Certificate != have.Certificate {
		p.add(waveBuild, Step{Kind: BindCertificate, On: on, ItemID: id, Port: port, Rule: want})
	}
}

func (p *planner) deleteRule(target *Address, have Item, wave int, note string) {
	p.add(wave,
		Step{
			Kind:     DeleteRule,
			On:       target.on(),
			ItemID:   have.ID,
			Port:     have.StartPort,
			Internal: target.Internal,
			Note:     note,
		})
}

// Notes on steps that a server needs if it cannot change rules in place.
const (
	noteRanges = "its source ranges changed, which cannot be done in place"
	// CloudStack before 4.22 stores and lists a changed protocol, but sends it to the router only when the algorithm
	// changes. Replacing the rule would close its port for a moment. Changing the algorithm affects only connections
	// that are new during that moment.
	noteProtocol = "the router applies the new protocol only together with another algorithm, which is changed back " +
		"at once"
)

// NeedsInPlace reports whether a plan has steps that are only needed because the server cannot change rules in place.
func NeedsInPlace(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		return s.Note == noteProtocol || s.Note == noteRanges
	})
}

// changeRule plans the changes of one rule, in place where CloudStack can.
func (p *planner) changeRule(target *Address, want Rule, have Item) {
	// A rule without a list, as older providers created it, is left as it is if a firewall filters. An emptied list
	// filters nothing.
	haveCIDRs := have.CIDRs
	if len(haveCIDRs) == 0 && (haveCIDRs != nil || p.desired.CIDRsDecide) {
		haveCIDRs = []string{annotation.Anyone}
	}

	cidrsDiffer := want.CIDRs != nil &&
		haveCIDRs != nil &&
		!target.Internal &&
		!annotation.SameRanges(want.CIDRs, haveCIDRs)

	inPlace := len(want.CIDRs) <= 1 && p.limits.InPlace
	if cidrsDiffer && !inPlace && have.Adopted && p.desired.Firewall && annotation.Contain(haveCIDRs, want.CIDRs) {
		cidrsDiffer = false // the firewall filters, so there is no reason to replace a rule at takeover
	}

	note := ""
	switch {
	case have.PrivatePort != want.PrivatePort:
		note = "its node port changed, and the ports of a rule cannot be changed"
	case have.Deleting:
		note = "an earlier deletion of it did not end"
	case target.Internal && have.Algorithm != want.Algorithm:
		note = "its algorithm changed, and that of an internal load balancer cannot be changed"
	case cidrsDiffer && !inPlace:
		note = noteRanges
	}

	if note != "" {
		p.deleteRule(target, have, waveDelete, note)
		p.createRule(target, want)
		return
	}

	// A rule without a protocol, as older providers created it, is a TCP rule.
	protocolDiffers := cmp.Or(have.Protocol, ProtocolTCP) != want.Protocol
	if want.Protocol != ProtocolSSL || protocolDiffers {
		have.Certificate = ""
	}

	on, port := target.on(), have.StartPort
	if protocolDiffers || have.Algorithm != want.Algorithm || cidrsDiffer {
		update := want
		if !cidrsDiffer {
			update.CIDRs = nil
		}
		if protocolDiffers && have.Algorithm == want.Algorithm && !p.limits.InPlace {
			other := update
			other.Algorithm = "leastconn"
			if want.Algorithm == other.Algorithm {
				other.Algorithm = "roundrobin"
			}
			p.add(waveBuild,
				Step{Kind: UpdateRule, On: on, ItemID: have.ID, Port: port, Rule: other, Note: noteProtocol})
		}
		p.add(waveBuild, Step{Kind: UpdateRule, On: on, ItemID: have.ID, Port: port, Rule: update})
	}

	p.extras(on, want, have)
	p.members(on, have, p.desired.Members)
}

// members plans the changes of a rule's members.
func (p *planner) members(on On, have Item, want []string) {
	if have.MembersUnread {
		return
	}
	change := Step{On: on, ItemID: have.ID, Port: have.StartPort, Wanted: want}
	add, remove := difference(want, have.Members)
	if len(add) > 0 {
		change.Kind, change.Members = AddMembers, add
		p.add(waveBuild, change)
	}
	if len(remove) > 0 {
		wave := waveTrim
		if len(want) == 0 {
			wave = waveClose // without a firewall, a rule without members denies access
		}
		change.Kind, change.Members = RemoveMembers, remove
		p.add(wave, change)
	}
}

// difference returns the elements that are only in want, and those that are only in have.
func difference(want, have []string) (add, remove []string) {
	if slices.Equal(want, have) {
		return nil, nil
	}
	w, h := sets.New(want...), sets.New(have...)
	return sets.List(w.Difference(h)), sets.List(h.Difference(w))
}

// leave plans the removal of everything that the Service owns on an address.
func (p *planner) leave(a *Address) {
	if !a.Ours() || a.FirewallUnread {
		return
	}

	// This depends neither on the address having tags now nor on the role being allowed to change them. A guest Service
	// keeps no address.
	keepIP := p.desired.KeepAddress && !a.Internal && a.GuestOf == "" && (a.Allocated || a.tagged())
	why := a.foreign()
	if a.Allocated && why == "" && !keepIP && !a.Internal {
		// Releasing the address also removes its rules.
		p.add(waveOldRelease, Step{Kind: ReleaseAddress, On: a.on()})
		return
	}

	for _, f := range access.Sorted(rulesOf(a.firewall(true))) {
		p.add(waveOldClose, a.on().closing(f))
	}

	for _, r := range a.OwnRules() {
		p.deleteRule(a, r, waveOldDelete, "")
	}

	for _, f := range a.OwnForwards() {
		p.add(waveOldDelete, a.onForward(DeleteForward, &f))
	}

	if a.Recorded || a.Owner == Owned {
		handOver := !keepIP && !a.Internal && (a.Allocated || a.Owner == Owned && a.Shared)
		switch {
		case a.Internal:
			why = "it belongs to its tier"
		case a.Shared:
			why = "other Services use it"
		case keepIP:
			why = "annotation " + annotation.KeepIP + " is set"
		case !a.Allocated:
			why = "the account had it before, or no tag proves that this controller acquired it; csccm adopt makes " +
				"it release such addresses"
		}

		p.add(waveOldRelease,
			Step{
				Kind:      DisownAddress,
				On:        a.on(),
				Internal:  a.Internal,
				Allocated: a.Allocated,
				HandOver:  handOver,
				Keep:      keepIP,
				Note:      why,
			})
	}
}
