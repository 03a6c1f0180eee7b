// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/spread"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// Refused plans for a Service whose request is refused. What exists for ports that it still asks for stays and follows
// the nodes. What exists for other ports is removed: their node ports may belong to another Service by now, and another
// Service may take the ports of a shared address and allow other sources. Nothing is opened, and no address is acquired
// or released.
//
// Without membersKnown, rules and port forwardings keep their members.
func Refused(f Facts, a Actual, membersKnown bool, limits Limits) (Desired, []Step) {
	p := planner{limits: limits, desired: Desired{Absent: true, UID: f.Service.UID}}
	aclPorts := annotation.PortSet{} // ports that network ACL lists must allow
	for _, x := range sortAddresses(a.Addresses) {
		if x.Ours() && x.State != StateReleasing {
			aclPorts = aclPorts.Union(p.maintain(f, &x, membersKnown))
		}
	}
	for _, l := range a.ACLs {
		p.narrow(aclPorts, owned(l.Items), nil, On{ACLID: l.ListID})
	}
	return p.desired, p.ordered()
}

// maintain plans for one address. It returns the ports that network ACL lists must allow for it.
func (p *planner) maintain(f Facts, x *Address, membersKnown bool) (aclPorts annotation.PortSet) {
	if x.Allocated || len(x.OwnRules())+len(x.OwnForwards()) > 0 {
		p.tagAddress(x)
	}

	aclPorts = annotation.PortSet{}
	open := annotation.PortSet{} // ports that the firewall must allow
	firewall := x.firewall(true)
	members := memberNames(f.Members, x.NetworkID)
	p.desired.NetworkID = cmp.Or(p.desired.NetworkID, x.NetworkID)
	p.desired.Members = ordered(slices.Concat(p.desired.Members, members))

	// Unless a firewall admits only sources that the Service still allows, a rule without members is what denies
	// access. So no rule gets its first member here, and none loses its last one.
	filtered := len(firewall) > 0 && !slices.ContainsFunc(firewall,
		func(i Item) bool { return !annotation.Contain(f.Spec.SourceRanges, i.CIDRs) })
	follows := membersKnown && x.NetworkID != "" && (len(members) > 0 || len(f.Members) == 0 && filtered)
	for _, r := range x.OwnRules() {
		protocol := transport(r.Protocol)
		if !f.Service.HasPort(protocol, r.StartPort, r.PrivatePort) {
			p.deleteRule(x, r, waveDelete, "")
			continue
		}

		// A rule of another provider keeps its members until this controller has taken the Service over.
		adopted := r.Adopted && !r.Tagged
		if follows && !adopted && !r.Deleting && (len(r.Members) > 0 || filtered) {
			p.members(x.on(), r, members)
		}
		open[protocol] = append(open[protocol], r.StartPort)
		if x.Internal {
			aclPorts[protocol] = append(aclPorts[protocol], r.StartPort)
		}
	}

	var forwards []Item
	for _, fw := range x.OwnForwards() {
		if !f.Service.HasPort(fw.Protocol, fw.StartPort, fw.PrivatePort) {
			p.add(waveDelete, x.onForward(DeleteForward, &fw))
			continue
		}
		forwards = append(forwards, fw)
		open[fw.Protocol] = append(open[fw.Protocol], fw.StartPort)
		aclPorts[fw.Protocol] = append(aclPorts[fw.Protocol], fw.PrivatePort)
	}

	if follows && len(members) > 0 {
		p.moveForwards(x, forwards, serving(f, x.NetworkID, members))
	}

	p.narrow(open.Union(nil), firewall, x.firewall(false), x.on())
	return aclPorts
}

// moveForwards moves the port forwardings whose member does not serve. Forwardings with the same source ranges move to
// the same member.
func (p *planner) moveForwards(x *Address, forwards []Item, serving []string) {
	var sources, current []string
	for _, f := range forwards {
		if at := slices.Index(sources, sourcesOf(f)); at < 0 {
			sources, current = append(sources, sourcesOf(f)), append(current, f.Member)
		} else if !slices.Contains(serving, current[at]) {
			current[at] = f.Member
		}
	}

	placed := spread.Place(p.desired.UID, serving, current)
	for _, f := range forwards {
		if slices.Contains(serving, f.Member) || f.Deleting {
			continue
		}
		move := x.onForward(UpdateForward, &f)
		move.Member, move.From = placed[slices.Index(sources, sourcesOf(f))], f.Member
		p.add(waveBuild, move)
	}
}

// narrow closes what the Service's own firewall rules, or its items of a network ACL list, open in addition to the
// given ports.
func (p *planner) narrow(wanted annotation.PortSet, own, others []Item, on On) {
	before := len(p.steps)
	for _, item := range own {
		ports := annotation.PortSet{}
		if !item.Deleting {
			ports[item.Protocol] = slices.DeleteFunc(slices.Clone(wanted[item.Protocol]),
				func(port int) bool { return !item.on(port) })
		}
		beside := slices.DeleteFunc(rulesOf(slices.Concat(own, others)),
			func(r access.Rule) bool { return r.ID == item.ID })
		p.access(access.Plan(ports, item.CIDRs, rulesOf([]Item{item}), beside, on.ACLID == ""), on)
	}

	switch {
	case len(p.steps) == before: // leave items of another provider without tags
	case on.ACLID != "":
		p.tag(TagACL, on, own)
	default:
		p.tag(TagFirewall, on, own)
	}
}

// sourcesOf returns the source ranges of an item as text.
func sourcesOf(i Item) string { return strings.Join(annotation.Canonical(i.CIDRs), ",") }
