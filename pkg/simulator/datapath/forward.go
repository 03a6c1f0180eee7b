// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/csccm/csccm/pkg/simulator"
)

// Ways to forward traffic by port forwarding rules.
const (
	// Relay forwards in user space, which needs no root. Members see an address of this machine instead of the
	// client's. TCP connections that a router would drop are reset.
	Relay = "relay"
	// NFTables changes destinations in this network namespace as a virtual router does. It needs root, IP forwarding
	// (net.ipv4.ip_forward), and a return route through this namespace.
	NFTables = "nftables"
)

// forwarding applies port forwarding rules. The mutex of its Path guards it.
type forwarding struct {
	mode    string
	nft     netfilter
	relays  map[relayKey]*relay
	current []simulator.RouterForward
	warned  bool
}

func newForwarding(mode, path string) (*forwarding, error) {
	switch {
	case mode == "":
		mode = Relay
	case mode != Relay && mode != NFTables:
		return nil, fmt.Errorf("port forwarding %q is not known; use %s or %s", mode, Relay, NFTables)
	case mode == NFTables && path != Direct:
		return nil, fmt.Errorf("port forwarding by %s needs the data path %s", NFTables, Direct)
	}
	return &forwarding{mode: mode, relays: map[relayKey]*relay{}}, nil
}

// forward applies the rules. It returns those that could not be applied, and whether another attempt may help.
func (p *Path) forward(forwards []simulator.RouterForward) (refused []Refusal, retry bool) {
	w := p.forwards
	w.current = forwards
	if w.mode == NFTables {
		if err := w.nft.apply(p.ctx, forwards); err != nil {
			for _, f := range forwards {
				refused = append(refused, Refusal{f.ID, forwardName(&f), err.Error()})
			}
			return refused, true
		}
		return nil, false
	}

	if len(forwards) > 0 && !w.warned {
		w.warned = true
		p.o.Logger.Warn("port forwarding rules are relayed in user space: VMs do not see the client's address, " +
			"and clients in the network itself are not told apart; nftables, which needs root, shows both")
	}

	wanted, refused := byPort(forwards)
	for key, r := range w.relays {
		if _, ok := wanted[key]; !ok {
			delete(w.relays, key)
			p.stopRelay(r)
		}
	}

	for key, group := range wanted {
		if r, ok := w.relays[key]; ok {
			r.configure(group)
			continue
		}
		r, err := p.openRelay(p.ctx, key, group)
		if err != nil {
			refused, retry = append(refused, Refusal{group[0].ID, key.String(), err.Error()}), true
			continue
		}
		w.relays[key] = r
	}

	slices.SortFunc(refused, func(a, b Refusal) int { return strings.Compare(a.ID+a.Name, b.ID+b.Name) })
	return refused, retry
}

// forwardName names a rule by its public port, because it has no name.
func forwardName(f *simulator.RouterForward) string {
	return fmt.Sprintf("%s:%s/%s", f.Address, ports(f.Port, f.EndPort), f.Protocol)
}

func (p *Path) stopRelay(r *relay) {
	if err := r.stop(context.WithoutCancel(p.ctx)); err != nil {
		p.o.Logger.Warn("close the listener of a port forwarding rule", "rule", r.key.String(), "error", err)
	}
}

// endForwarding removes all rules.
func (p *Path) endForwarding() {
	for _, r := range p.forwards.relays {
		p.stopRelay(r)
	}
	if p.forwards.mode == NFTables {
		if err := p.forwards.nft.remove(context.WithoutCancel(p.ctx)); err != nil {
			p.o.Logger.Warn("remove the nftables rules", "error", err)
		}
	}
}

// isRefused reports whether err is the ICMP message that no process listens at the peer.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
