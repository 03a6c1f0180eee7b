// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/spread"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// bucketsOf are the sources of each port forwarding of a port: one without a list where they cannot tell sources apart.
func (d Desired) bucketsOf() [][]string {
	if len(d.Members) == 0 {
		return nil // with nobody to be led to, or nobody to be let in, there is no forwarding
	}
	if d.Buckets == 0 {
		return [][]string{nil}
	}
	return slices.DeleteFunc(spread.Cut(d.Ranges, d.Buckets), func(part []string) bool { return len(part) == 0 })
}

// forwards plans the port forwardings of the target.
//
// Those of one port never overlap: which of them a packet takes would depend on their order in the router. Where sources
// change from one to another, all first give up what they lose, and then take what they gain; that takes some calls, for
// which those sources find the port closed, and shuts out nobody who has a connection.
func (p *planner) forwards(target *Address) {
	buckets := p.desired.bucketsOf()
	wanted := map[ForwardPort][]*Forward{} // port forwardings that stay, by port and bucket
	own := target.OwnForwards()
	gone := map[ForwardPort][]string{} // ids of those that go; without a private port
	ports := slices.SortedFunc(slices.Values(p.desired.Forwards), compareForwardPorts)
	for i := range own {
		f := &own[i]
		at := slices.IndexFunc(ports, func(w ForwardPort) bool { return w.Protocol == f.Protocol && w.PublicPort == f.StartPort })
		if at >= 0 && f.State != StateDeleting {
			wanted[ports[at]] = append(wanted[ports[at]], f)
			continue
		}
		gone[f.port()] = append(gone[f.port()], p.deleteForward(target, f, waveDelete))
	}
	for _, port := range ports {
		kept, surplus := pair(wanted[port], buckets)
		wanted[port] = kept
		for _, f := range surplus {
			gone[f.port()] = append(gone[f.port()], p.deleteForward(target, f, waveDelete))
		}
	}
	members := p.placed(ports, wanted, len(buckets))
	for _, port := range ports {
		replaces := slices.Concat(gone[ForwardPort{Protocol: port.Protocol, PublicPort: port.PublicPort}], p.ruleOn(target, port.PublicPort))
		for i, cidrs := range buckets {
			if f := kept(wanted[port], i); f != nil {
				p.changeForward(target, port, f, members[i], cidrs)
				continue
			}
			wave := waveBuild
			if p.claims[port.PublicPort] {
				wave = waveClaim
			}
			p.add(wave, CreateForward{
				OnForward: OnForward{target.on(), "", port.Protocol, port.PublicPort},
				NetworkID: p.desired.NetworkID, PrivatePort: port.PrivatePort, Member: members[i], CIDRs: cidrs,
			}, replaces...)
		}
	}
	p.tagForwards(target)
}

// StateAdd is CloudStack's state of a port forwarding that the router does not have yet.
const StateAdd = "Add"

// port is what is wanted of a port forwarding, but its private port.
func (f *Forward) port() ForwardPort {
	return ForwardPort{Protocol: f.Protocol, PublicPort: f.StartPort}
}

func kept(list []*Forward, bucket int) *Forward {
	if bucket >= len(list) {
		return nil
	}
	return list[bucket]
}

// ruleOn returns the id of an own load balancer rule on a port, which goes before a port forwarding can be there.
func (p *planner) ruleOn(target *Address, port int) []string {
	if r := target.Rule("", port); r != nil && target.ID != "" {
		return []string{r.ID}
	}
	return nil
}

// forwardsOn returns the ids of own port forwardings of a number, which go before a load balancer rule can be there.
func (a *Address) forwardsOn(port int) []string {
	var ids []string
	for _, f := range a.OwnForwards() {
		if f.StartPort == port {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (p *planner) deleteForward(target *Address, f *Forward, wave int) string {
	p.add(wave, DeleteForward{OnForward: OnForward{target.on(), f.ID, f.Protocol, f.StartPort}})
	return f.ID
}

// pair gives each bucket the port forwarding that has most of its sources already; the others are not needed. The order
// of the list decides between equals.
func pair(list []*Forward, buckets [][]string) (kept, surplus []*Forward) {
	kept = make([]*Forward, len(buckets))
	rest := slices.Clone(list)
	for {
		bestBucket, bestForward, most := -1, -1, uint64(0)
		for b, cidrs := range buckets {
			if kept[b] != nil {
				continue
			}
			for i, f := range rest {
				shared := uint64(1) // without lists one is as good as another
				if cidrs != nil {
					shared = spread.Size(spread.Common(f.sources(), cidrs))
				}
				if shared > most {
					bestBucket, bestForward, most = b, i, shared
				}
			}
		}
		if bestBucket < 0 {
			return kept, rest
		}
		kept[bestBucket] = rest[bestForward]
		rest = slices.Delete(rest, bestForward, bestForward+1)
	}
}

// sources are whom a port forwarding leads to its member: everybody without a list.
func (f *Forward) sources() []string {
	if len(f.CIDRs) == 0 {
		return []string{annotation.Anyone}
	}
	return f.CIDRs
}

// placed chooses the members of the buckets. All ports of a Service share them: the member that most ports have for a
// bucket counts as its current one.
func (p *planner) placed(ports []ForwardPort, have map[ForwardPort][]*Forward, buckets int) []string {
	current := make([]string, buckets)
	for b := range current {
		votes := map[string]int{}
		for _, port := range ports {
			if f := kept(have[port], b); f != nil && slices.Contains(p.desired.Serving, f.Member) {
				votes[f.Member]++
				if m := current[b]; m == "" || votes[f.Member] > votes[m] || votes[f.Member] == votes[m] && f.Member < m {
					current[b] = f.Member
				}
			}
		}
	}
	return spread.Place(p.desired.UID, p.desired.Serving, current)
}

// changeForward plans the changes of one port forwarding in place.
func (p *planner) changeForward(target *Address, port ForwardPort, f *Forward, member string, cidrs []string) {
	update := UpdateForward{OnForward: OnForward{target.on(), f.ID, f.Protocol, f.StartPort}}
	changed := target.Settled && f.State == StateAdd // it was never applied
	if f.Member != member {
		update.Member, update.From, changed = member, f.Member, true
	}
	if f.PrivatePort != port.PrivatePort {
		update.PrivatePort, changed = port.PrivatePort, true
	}
	if cidrs == nil || access.Same(f.sources(), cidrs) {
		if changed {
			p.add(waveBuild, update)
		}
		return
	}
	if !access.Contain(cidrs, f.sources()) {
		update.CIDRs = spread.Common(f.sources(), cidrs)
		p.add(waveClose, update)
		if access.Same(update.CIDRs, cidrs) {
			return
		}
		update = UpdateForward{OnForward: update.OnForward}
	}
	update.CIDRs = cidrs
	p.add(waveBuild, update)
}

// tagForwards tags all own port forwardings that will be there and have no tags, with one call.
func (p *planner) tagForwards(target *Address) {
	if p.limits.NoTags {
		return
	}
	untagged := map[string]bool{}
	tags := TagForwards{OnAddress: target.on()}
	for _, f := range target.OwnForwards() {
		untagged[f.ID] = !f.Tagged
	}
	for _, s := range p.steps {
		switch act := s.Action.(type) {
		case DeleteForward:
			delete(untagged, act.ForwardID)
		case CreateForward:
			tags.Forwards++
		}
	}
	for _, is := range untagged {
		if is {
			tags.Forwards++
		}
	}
	if tags.Forwards > 0 {
		p.add(waveBuild, tags)
	}
}
