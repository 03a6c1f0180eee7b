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

// Kept plans for a Service that is refused what it asks for. What it has in CloudStack for ports that it still asks for
// stays as it is and follows the nodes. What it has for other ports goes: their node ports may be another Service's by
// now, and another Service may take the ports of a shared address, to which it lets in others. Nothing is opened, and
// no address is acquired or released.
//
// Without membersKnown rules and port forwardings lead where they do.
func Kept(f Facts, a Actual, membersKnown bool, limits Limits) (Desired, []Step) {
	p := planner{limits: limits, desired: Desired{Absent: true, UID: f.Service.UID}}
	letIn := annotation.PortSet{} // by network ACL lists
	for _, x := range sortAddresses(a.Addresses) {
		if x.Ours() && x.State != StateReleasing {
			letIn = letIn.Union(p.keep(f, &x, membersKnown))
		}
	}
	for _, l := range a.ACLs {
		p.narrow(letIn, owned(l.Items), nil, On{ACLID: l.ListID})
	}
	slices.SortStableFunc(p.steps, func(x, y Step) int { return cmp.Compare(x.Wave, y.Wave) })
	return p.desired, p.steps
}

// keep plans for one address, and returns the ports that network ACL lists have to let in for it.
func (p *planner) keep(f Facts, x *Address, membersKnown bool) (letIn annotation.PortSet) {
	if x.Allocated || len(x.OwnRules())+len(x.OwnForwards()) > 0 {
		p.tagAddress(x)
	}
	letIn = annotation.PortSet{}
	open := annotation.PortSet{} // by the firewall
	firewall := x.firewall(true)
	members := memberNames(f.Members, x.NetworkID)
	p.desired.NetworkID = cmp.Or(p.desired.NetworkID, x.NetworkID)
	p.desired.Members = ordered(slices.Concat(p.desired.Members, members))

	// Where there is no firewall, rules without members are what keeps sources out: there none gets its first one, or
	// loses its last.
	follows := membersKnown && x.NetworkID != "" && (len(members) > 0 || len(f.Members) == 0 && len(firewall) > 0)
	for _, r := range x.OwnRules() {
		protocol := transport(r.Protocol)
		if !f.Service.HasPort(protocol, r.StartPort, r.PrivatePort) {
			p.deleteRule(x, r, waveDelete, "")
			continue
		}
		// what another provider made keeps its members until the Service is taken over
		adopted := r.Adopted && !r.Tagged
		if follows && !adopted && !r.Deleting && (len(r.Members) > 0 || len(firewall) > 0) {
			p.members(x.on(), r, members)
		}
		open[protocol] = append(open[protocol], r.StartPort)
		if x.Internal {
			letIn[protocol] = append(letIn[protocol], r.StartPort)
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
		letIn[fw.Protocol] = append(letIn[fw.Protocol], fw.PrivatePort)
	}
	if follows && len(members) > 0 {
		p.moveForwards(x, forwards, serving(f, x.NetworkID, members))
	}

	p.narrow(open.Union(nil), firewall, x.firewall(false), x.on())
	return letIn
}

// moveForwards moves the port forwardings that lead to nobody who serves. Those of the same sources stay together.
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

// narrow closes what the Service's firewall rules, or its items of a network ACL list, open beside the ports that are
// kept.
func (p *planner) narrow(kept annotation.PortSet, own, others []Item, on On) {
	before := len(p.steps)
	for _, item := range own {
		ports := annotation.PortSet{}
		if !item.Deleting {
			ports[item.Protocol] = slices.DeleteFunc(slices.Clone(kept[item.Protocol]),
				func(port int) bool { return !item.on(port) })
		}
		var beside []access.Range
		for _, other := range slices.Concat(own, others) {
			if !other.Deleting && other.ID != item.ID {
				beside = append(beside, other.Range)
			}
		}
		p.access(access.Plan(ports, item.CIDRs, rulesOf([]Item{item}), beside, on.ACLID == ""), on)
	}

	switch {
	case len(p.steps) == before: // what another provider made has no tags
	case on.ACLID != "":
		p.tag(TagACL, on, own)
	default:
		p.tag(TagFirewall, on, own)
	}
}

// sourcesOf writes the source ranges of an item.
func sourcesOf(i Item) string { return strings.Join(annotation.Canonical(i.CIDRs), ",") }
