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

// bucketsOf returns the source ranges for each port forwarding of a port. If port forwardings cannot have source
// ranges, there is one without.
func (d Desired) bucketsOf() [][]string {
	if len(d.Members) == 0 {
		return nil // no port forwardings, because there is no member, or no source is allowed
	}
	if d.Buckets == 0 {
		return [][]string{nil}
	}
	return slices.DeleteFunc(spread.Cut(d.Ranges, d.Buckets), func(part []string) bool { return len(part) == 0 })
}

// forwards plans the port forwardings of the target.
//
// The source ranges of one port's forwardings never overlap: otherwise their order in the router would decide which one
// a packet takes. When sources move between forwardings, all forwardings first give up the sources that they lose, and
// then take the new ones. New connections from these sources fail between the two calls; existing connections stay
// open.
func (p *planner) forwards(target *Address) {
	buckets := p.desired.bucketsOf()
	current := map[ForwardPort][]*Item{} // by port, then by bucket
	ports := slices.SortedFunc(slices.Values(p.desired.Forwards), compareForwardPorts)
	own := target.OwnForwards()
	for i := range own {
		f := &own[i]
		at := slices.IndexFunc(ports,
			func(w ForwardPort) bool { return w.Protocol == f.Protocol && w.PublicPort == f.StartPort })
		if at >= 0 && !f.Deleting {
			current[ports[at]] = append(current[ports[at]], f)
		} else {
			p.add(waveDelete, target.onForward(DeleteForward, f))
		}
	}

	for _, port := range ports {
		var surplus []*Item
		current[port], surplus = pair(current[port], buckets)
		for _, f := range surplus {
			p.add(waveDelete, target.onForward(DeleteForward, f))
		}
	}

	members := p.placed(ports, current, len(buckets))
	for _, port := range ports {
		for i, cidrs := range buckets {
			if f := current[port][i]; f != nil {
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

// pair assigns to each bucket the first port forwarding that has some of its sources already. It returns the rest as
// surplus.
func pair(list []*Item, buckets [][]string) (matched, surplus []*Item) {
	matched, surplus = make([]*Item, len(buckets)), slices.Clone(list)
	for b, cidrs := range buckets {
		at := slices.IndexFunc(surplus,
			func(f *Item) bool { return cidrs == nil || len(annotation.Common(f.sources(), cidrs)) > 0 })
		if at >= 0 {
			matched[b] = surplus[at]
			surplus = slices.Delete(surplus, at, at+1)
		}
	}
	return matched, surplus
}

// sources returns the allowed source ranges of a port forwarding; all addresses when it has no list.
func (f *Item) sources() []string {
	if len(f.CIDRs) == 0 {
		return []string{annotation.Anyone}
	}
	return f.CIDRs
}

// placed chooses a member for each bucket, the same for all ports of the Service. The current member of a bucket is the
// one to which the first port of the Service is forwarded.
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
	changed := target.Settled && f.State == StateAdd // the router never received it
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

// ForwardPort is a port that is to be forwarded. A Service may have the same number for TCP and for UDP.
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

// portText returns a port with its protocol, such as "53/udp".
func portText(protocol string, port int) string { return fmt.Sprintf("%d/%s", port, protocol) }
