// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/spread"
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
// Those of one port never overlap: which of them a packet takes would depend on their order in the router. Where
// sources change from one to another, all first give up what they lose, and then take what they gain; that takes some
// calls, for which those sources find the port closed, and shuts out nobody who has a connection.
func (p *planner) forwards(target *Address) {
	buckets := p.desired.bucketsOf()
	kept := map[ForwardPort][]*Item{} // by port and bucket
	ports := slices.SortedFunc(slices.Values(p.desired.Forwards), compareForwardPorts)
	own := target.OwnForwards()
	for i := range own {
		f := &own[i]
		at := slices.IndexFunc(ports,
			func(w ForwardPort) bool { return w.Protocol == f.Protocol && w.PublicPort == f.StartPort })
		if at >= 0 && !f.Deleting {
			kept[ports[at]] = append(kept[ports[at]], f)
		} else {
			p.add(waveDelete, target.onForward(DeleteForward, f))
		}
	}

	for _, port := range ports {
		var surplus []*Item
		kept[port], surplus = pair(kept[port], buckets)
		for _, f := range surplus {
			p.add(waveDelete, target.onForward(DeleteForward, f))
		}
	}

	members := p.placed(ports, kept, len(buckets))
	for _, port := range ports {
		for i, cidrs := range buckets {
			if f := kept[port][i]; f != nil {
				p.changeForward(target, port, f, members[i], cidrs)
				continue
			}
			p.add(waveBuild, Step{
				Kind: CreateForward, On: target.on(), Protocol: port.Protocol, Port: port.PublicPort,
				PrivatePort: port.PrivatePort, Member: members[i], CIDRs: cidrs,
			})
		}
	}
}

func (a *Address) onForward(kind string, f *Item) Step {
	return Step{Kind: kind, On: a.on(), ItemID: f.ID, Protocol: f.Protocol, Port: f.StartPort}
}

// pair gives each bucket the first port forwarding that has some of its sources already; the others are not needed.
func pair(list []*Item, buckets [][]string) (kept, surplus []*Item) {
	kept, surplus = make([]*Item, len(buckets)), slices.Clone(list)
	for b, cidrs := range buckets {
		at := slices.IndexFunc(surplus,
			func(f *Item) bool { return cidrs == nil || len(annotation.Common(f.sources(), cidrs)) > 0 })
		if at >= 0 {
			kept[b] = surplus[at]
			surplus = slices.Delete(surplus, at, at+1)
		}
	}
	return kept, surplus
}

// sources are whom a port forwarding leads to its member: everybody without a list.
func (f *Item) sources() []string {
	if len(f.CIDRs) == 0 {
		return []string{annotation.Anyone}
	}
	return f.CIDRs
}

// placed chooses the members of the buckets. All ports of a Service share them: the member that the first port has for
// a bucket counts as its current one.
func (p *planner) placed(ports []ForwardPort, have map[ForwardPort][]*Item, buckets int) []string {
	current := make([]string, buckets)
	for b := range current {
		for _, port := range ports {
			if f := have[port][b]; f != nil && current[b] == "" && slices.Contains(p.desired.Serving, f.Member) {
				current[b] = f.Member
			}
		}
	}
	return spread.Place(p.desired.UID, p.desired.Serving, current)
}

// changeForward plans the changes of one port forwarding in place.
func (p *planner) changeForward(target *Address, port ForwardPort, f *Item, member string, cidrs []string) {
	update := target.onForward(UpdateForward, f)
	changed := target.Settled && f.State == StateAdd // it was never applied
	if f.Member != member {
		update.Member, update.From, changed = member, f.Member, true
	}

	if f.PrivatePort != port.PrivatePort {
		update.PrivatePort, changed = port.PrivatePort, true
	}

	if cidrs == nil || annotation.SameRanges(f.sources(), cidrs) {
		if changed {
			p.add(waveBuild, update)
		}
		return
	}

	if !annotation.Contain(cidrs, f.sources()) {
		update.CIDRs = annotation.Common(f.sources(), cidrs)
		p.add(waveClose, update)
		if annotation.SameRanges(update.CIDRs, cidrs) {
			return
		}
		update = target.onForward(UpdateForward, f)
	}

	update.CIDRs = cidrs
	p.add(waveBuild, update)
}

// ForwardPort is a port that is wanted as a port forwarding. A Service may have one number for TCP and for UDP.
type ForwardPort struct {
	Protocol    string `json:"protocol"` // tcp or udp
	PublicPort  int    `json:"publicPort"`
	PrivatePort int    `json:"privatePort"`
}

func (f ForwardPort) public() int  { return f.PublicPort }
func (f ForwardPort) private() int { return f.PrivatePort }

func compareForwardPorts(a, b ForwardPort) int {
	return cmp.Or(cmp.Compare(a.PublicPort, b.PublicPort), cmp.Compare(a.Protocol, b.Protocol))
}

// portText writes a port with its protocol, as "53/udp".
func portText(protocol string, port int) string { return fmt.Sprintf("%d/%s", port, protocol) }
