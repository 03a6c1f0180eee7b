// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator"
)

// Listener is the HAProxy configuration of one rule.
type Listener struct {
	ID, Name    string
	Public      netip.AddrPort
	Algorithm   string
	ProxyHeader bool             // PROXY protocol version 1 to members
	TLS         *tls.Certificate // terminates TLS
	HTTP        bool             // HAProxy's mode http with httpclose: one request per connection
	Ranges      []netip.Prefix   // allowed sources; empty: all
	Filtered    bool
	Filter      []simulator.RouterFilter
	Sticky      time.Duration // how long a client sticks to its member; 0: never
	StickySize  int           // maximum number of clients in the table
	Cookie      string        // HAProxy's directive for the cookie of the load balancer; empty: none
	Members     []Member
}

// Member is a destination of a rule.
type Member struct {
	VM      string
	Address netip.AddrPort
	Running bool
}

// Refusal is a rule that HAProxy refuses: its previous configuration stays in force.
type Refusal struct {
	ID, Name, Reason string
}

// Algorithms of load balancer rules.
const (
	roundRobin = "roundrobin"
	leastConn  = "leastconn"
	bySource   = "source"
)

// httpPort is the port on which CloudStack configures HAProxy for HTTP regardless of the rule's protocol.
const httpPort = 80

// Desired returns the listeners for the router's rules in their order, and the rules that HAProxy would refuse.
func Desired(router simulator.Router) ([]Listener, []Refusal) {
	var listeners []Listener
	var refused []Refusal
	for i := range router.Rules {
		l, err := desired(&router.Rules[i])
		if err != nil {
			refused = append(refused, Refusal{router.Rules[i].ID, router.Rules[i].Name, err.Error()})
			continue
		}
		listeners = append(listeners, l)
	}
	return listeners, refused
}

func desired(r *simulator.RouterRule) (Listener, error) {
	l := Listener{
		// #nosec G115 -- checked by the API
		ID: r.ID, Name: r.Name, Public: netip.AddrPortFrom(r.Address, uint16(r.Port)), Algorithm: r.Algorithm,
		Filtered: r.Filtered, Filter: r.Filter,
	}

	if !slices.Contains([]string{roundRobin, leastConn, bySource}, r.Algorithm) {
		return l, fmt.Errorf("algorithm %q is not known; HAProxy supports roundrobin, leastconn and source",
			r.Algorithm)
	}

	switch r.Protocol {
	case "", "tcp":
	case "tcp-proxy":
		l.ProxyHeader = true
	case "ssl":
		if l.TLS = r.Certificate; l.TLS == nil {
			return l, fmt.Errorf("protocol ssl: the rule has no certificate with an RSA key that was uploaded to " +
				"this simulator")
		}
	default:
		return l, fmt.Errorf("protocol %q: HAProxy forwards TCP only", r.Protocol)
	}

	var err error
	if l.Ranges, err = ranges(r.CIDRList); err != nil {
		return l, err
	}

	if err := l.applySticky(r.Sticky); err != nil {
		return l, err
	}

	l.HTTP = l.Public.Port() == httpPort || l.Cookie != "" || l.TLS != nil
	for _, m := range r.Members {
		to := netip.AddrPortFrom(m.Address, uint16(r.PrivatePort)) // #nosec G115 -- checked by the API
		l.Members = append(l.Members, Member{VM: m.VM, Address: to, Running: m.Running})
	}

	return l, nil
}

// ranges parses the cidrlist of a rule like HAProxy, which expects blanks as separators.
func ranges(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	if n := len(strings.Fields(list)); n > simulator.RouterRanges {
		return nil, fmt.Errorf("%d source ranges: HAProxy reads at most %d", n, simulator.RouterRanges)
	}

	for _, s := range strings.Fields(list) {
		if strings.Contains(s, ",") {
			return nil, fmt.Errorf("source ranges %q: HAProxy requires blanks as separators", list)
		}
		p, err := netip.ParsePrefix(s)
		if a, bare := netip.ParseAddr(s); bare == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("source range %q is neither a CIDR nor an address", s)
		}
		out = append(out, p.Masked())
	}

	return out, nil
}

// verdict is the decision about a client's connection before it is balanced.
type verdict int

const (
	admitted      verdict = iota
	byFirewall            // dropped before it reaches HAProxy
	bySourceRange         // closed by HAProxy
)

// admit decides by the client's address.
func (l *Listener) admit(client netip.Addr) verdict {
	client = client.Unmap()
	if l.Filtered && !passes(l.Filter, client) {
		return byFirewall
	}
	if len(l.Ranges) > 0 && !within(l.Ranges, client) {
		return bySourceRange
	}
	return admitted
}

// Admits reports whether a client reaches the members of the rule.
func (l *Listener) Admits(client netip.Addr) bool { return l.admit(client) == admitted }

// passes returns the action of the first item that matches. Packets that match no item are dropped.
func passes(items []simulator.RouterFilter, client netip.Addr) bool {
	for _, it := range items {
		if within(it.Sources, client) {
			return it.Allow
		}
	}
	return false
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}
