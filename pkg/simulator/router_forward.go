// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// RouterForward is a port forwarding rule: the router changes the destination of packets.
type RouterForward struct {
	ID            string
	Address       netip.Addr // public
	Protocol      string     // tcp or udp
	Port, EndPort int        // public ports
	PrivatePort   int        // private port of Port; if it is a range of several ports, it equals the public range
	VM            string     // the name of the VM
	Guest         netip.Addr
	Running       bool // whether the VM runs; a stopped VM does not answer
	// Sources are the clients to whose packets the rule applies; empty: all. Only the router of a VPC applies the
	// rule's cidrlist.
	Sources []netip.Prefix
	// Hairpin is the CIDR of the isolated network. The router replaces the source address of clients in that network
	// by its own, so that answers return through the router. It is not valid in a VPC, whose router does not do that.
	Hairpin netip.Prefix
	// Filtered reports whether Filter applies. Its ports are public ports (firewall of the address), or private ports
	// if ByACL is set (ACL of the tier, which packets pass with the VM's address). Packets that match no item are
	// dropped.
	Filtered, ByACL bool
	Filter          []RouterFilter
}

// forwarded returns a port forwarding rule as it is configured on the router, or false if it was never sent to it.
func forwarded(st *store.State, r *store.PFRule) (RouterForward, bool) {
	guest, err := netip.ParseAddr(r.GuestIP)
	if r.State == store.RuleAdd || err != nil || st.Lost(r.UUID, r.Network) {
		return RouterForward{}, false
	}

	out := RouterForward{
		ID:          r.UUID,
		Address:     r.IP.Addr,
		Protocol:    r.Protocol,
		Port:        r.PublicStart,
		EndPort:     r.PublicEnd,
		PrivatePort: r.PrivateStart,
		VM:          r.VM.Name,
		Guest:       guest,
		Running:     r.VM.State == store.VMRunning,
	}

	if r.Network.VPC != nil {
		out.Sources, out.ByACL = prefixes(r.CIDRs), true
		out.Filtered, out.Filter = tierFilter(st, r.Network, r.Protocol, r.PrivateStart, r.PrivateEnd)
		return out, true
	}

	out.Hairpin = r.Network.CIDR
	if !r.Network.Provides("Firewall") {
		return out, true
	}

	out.Filtered = true
	for _, f := range r.IP.FWRules {
		if f.State != store.RuleAdd &&
			!st.Lost(f.UUID, f.Network) &&
			f.Protocol == r.Protocol &&
			portsMeet(r.PublicStart, r.PublicEnd, f.StartPort, f.EndPort) {
			out.Filter = append(out.Filter, portFilter(true, f.CIDRs, f.StartPort, f.EndPort))
		}
	}

	return out, true
}

// tierFilter returns the items of a tier's ACL, in their order, for forwarded packets with these destination ports. It
// returns false if the tier has no ACL.
func tierFilter(st *store.State, n *store.Network, protocol string, from, to int) (bool, []RouterFilter) {
	if n.ACL == nil {
		return false, nil
	}
	var items []*store.ACLItem
	for _, it := range st.ACLItems.Rows {
		same := strings.EqualFold(it.Protocol, protocol) || it.Protocol == protocolNumber[protocol]
		fits := strings.EqualFold(it.Protocol, "all") || same && portsMeet(from, to, it.StartPort, it.EndPort)
		if it.List == n.ACL && fits && it.State != store.RuleAdd && strings.EqualFold(it.Traffic, "Ingress") {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b *store.ACLItem) int { return a.Number - b.Number })
	var out []RouterFilter
	for _, it := range items {
		out = append(out, portFilter(strings.EqualFold(it.Action, "Allow"), it.CIDRs, it.StartPort, it.EndPort))
	}
	return true, out
}

// protocolNumber has the numbers that ACL items may use instead of names.
var protocolNumber = map[string]string{"tcp": "6", "udp": "17"}

func portFilter(allow bool, cidrs []string, from, to *int) RouterFilter {
	f := RouterFilter{Allow: allow, Sources: prefixes(cidrs)}
	if from != nil {
		f.From, f.To = *from, *from
		if to != nil {
			f.To = *to
		}
	}
	return f
}

// portsMeet reports whether two ranges have a port in common; a range without a start contains all ports.
func portsMeet(from, to int, start, end *int) bool {
	if start == nil {
		return true
	}
	last := *start
	if end != nil {
		last = *end
	}
	return from <= last && *start <= to
}
