// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
		var surplus []*Forward
		wanted[port], surplus = pair(wanted[port], buckets)
		for _, f := range surplus {
			gone[f.port()] = append(gone[f.port()], p.deleteForward(target, f, waveDelete))
		}
	}
	members := p.placed(ports, wanted, len(buckets))
	for _, port := range ports {
		replaces := gone[ForwardPort{Protocol: port.Protocol, PublicPort: port.PublicPort}]
		if rule := target.Rule("", port.PublicPort); rule != nil { // it goes before a port forwarding can be there
			replaces = append(slices.Clip(replaces), rule.ID)
		}
		for i, cidrs := range buckets {
			if f := wanted[port][i]; f != nil {
				p.changeForward(target, port, f, members[i], cidrs)
				continue
			}
			p.add(waveBuild, Step{
				Kind: CreateForward, On: target.on(), Protocol: port.Protocol, Port: port.PublicPort,
				PrivatePort: port.PrivatePort, Member: members[i], CIDRs: cidrs,
			}, replaces...)
		}
	}
}

// StateAdd is CloudStack's state of a port forwarding that the router does not have yet.
const StateAdd = "Add"

// port is what is wanted of a port forwarding, but its private port.
func (f *Forward) port() ForwardPort {
	return ForwardPort{Protocol: f.Protocol, PublicPort: f.StartPort}
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
	p.add(wave, target.onForward(DeleteForward, f))
	return f.ID
}

func (a *Address) onForward(kind string, f *Forward) Step {
	return Step{Kind: kind, On: a.on(), ItemID: f.ID, Protocol: f.Protocol, Port: f.StartPort}
}

// pair gives each bucket the first port forwarding that has some of its sources already; the others are not needed.
func pair(list []*Forward, buckets [][]string) (kept, surplus []*Forward) {
	kept, surplus = make([]*Forward, len(buckets)), slices.Clone(list)
	for b, cidrs := range buckets {
		at := slices.IndexFunc(surplus, func(f *Forward) bool { return cidrs == nil || len(spread.Common(f.sources(), cidrs)) > 0 })
		if at >= 0 {
			kept[b] = surplus[at]
			surplus = slices.Delete(surplus, at, at+1)
		}
	}
	return kept, surplus
}

// sources are whom a port forwarding leads to its member: everybody without a list.
func (f *Forward) sources() []string {
	if len(f.CIDRs) == 0 {
		return []string{annotation.Anyone}
	}
	return f.CIDRs
}

// placed chooses the members of the buckets. All ports of a Service share them: the member that the first port has for a
// bucket counts as its current one.
func (p *planner) placed(ports []ForwardPort, have map[ForwardPort][]*Forward, buckets int) []string {
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
func (p *planner) changeForward(target *Address, port ForwardPort, f *Forward, member string, cidrs []string) {
	update := target.onForward(UpdateForward, f)
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

func compareForwardPorts(a, b ForwardPort) int {
	return cmp.Or(cmp.Compare(a.PublicPort, b.PublicPort), cmp.Compare(a.Protocol, b.Protocol))
}

// portText writes a port with its protocol, as "53/udp".
func portText(protocol string, port int) string { return fmt.Sprintf("%d/%s", port, protocol) }

// Forward is a port forwarding found on an address.
type Forward struct {
	ID        string `json:"id"`
	Protocol  string `json:"protocol"`
	StartPort int    `json:"startPort"`
	EndPort   int    `json:"endPort"`
	VM        string `json:"vm,omitempty"` // its name, to be shown

	Mark // the owner is Owned for the Service's own, and empty for all others
	// The rest is known of own ones.
	Member      string   `json:"member,omitempty"` // see MemberName
	PrivatePort int      `json:"privatePort,omitempty"`
	CIDRs       []string `json:"cidrs,omitempty"`
	State       string   `json:"state,omitempty"`
}

// has reports whether a public port is forwarded.
func (f *Forward) has(port int) bool { return f.StartPort <= port && port <= f.EndPort }

// bars reports whether a port forwarding of others keeps us from forwarding a port. CloudStack would take two on one
// port where their source ranges differ as texts.
func (f *Forward) bars(protocol string, port int) bool {
	return f.Owner != Owned && f.has(port) && cmp.Or(f.Protocol, protocol) == protocol
}

// OwnForwards returns the Service's own port forwardings on the address, sorted.
func (a *Address) OwnForwards() []Forward {
	var out []Forward
	for i := range a.Forwards {
		if a.Forwards[i].Owner == Owned {
			out = append(out, a.Forwards[i])
		}
	}
	slices.SortFunc(out, func(a, b Forward) int {
		return cmp.Or(cmp.Compare(a.StartPort, b.StartPort), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// untagged are the ids of own port forwardings without tags, for the record: nothing else proves them ours.
func (a *Address) untagged() string {
	var ids []string
	for _, f := range a.OwnForwards() {
		if !f.Tagged {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}
