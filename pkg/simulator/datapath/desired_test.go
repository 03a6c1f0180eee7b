// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"crypto/tls"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

func rule1(change func(*simulator.RouterRule)) simulator.Router {
	r := simulator.RouterRule{
		ID:          "1",
		Name:        "web",
		Address:     netip.MustParseAddr("203.0.113.20"),
		Port:        80,
		PrivatePort: 30080,
		Algorithm:   roundRobin,
		Protocol:    "tcp",
		Members:     []simulator.RouterMember{{VM: "a", Address: netip.MustParseAddr("10.1.1.21"), Running: true}},
	}
	change(&r)
	return simulator.Router{Rules: []simulator.RouterRule{r}}
}

func TestDesired(t *testing.T) {
	t.Parallel()
	l, refused := Desired(rule1(func(r *simulator.RouterRule) {
		r.Protocol, r.CIDRList = "tcp-proxy", "10.0.0.0/8 192.0.2.1"
		r.Sticky = &simulator.RouterSticky{
			Method: "sourcebased",
			Params: map[string]string{"expire": "2h", "tablesize": "1k"},
		}
	}))
	require.Empty(t, refused)
	require.Equal(t, []Listener{{
		ID:          "1",
		Name:        "web",
		Public:      netip.MustParseAddrPort("203.0.113.20:80"),
		Algorithm:   roundRobin,
		ProxyHeader: true,
		HTTP:        true,
		Ranges:      []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32")},
		Sticky:      2 * time.Hour,
		StickySize:  1024,
		Members:     []Member{{VM: "a", Address: netip.MustParseAddrPort("10.1.1.21:30080"), Running: true}},
	}}, l)

	for name, tc := range map[string]struct {
		http   bool
		change func(*simulator.RouterRule)
	}{
		"port 80":      {true, func(*simulator.RouterRule) {}},
		"another port": {false, func(r *simulator.RouterRule) { r.Port = 8080 }},
		"a table of addresses": {false,
			func(r *simulator.RouterRule) { r.Port, r.Sticky = 8080, &simulator.RouterSticky{Method: "SourceBased"} }},
		"a cookie": {true,
			func(r *simulator.RouterRule) { r.Port, r.Sticky = 8080, &simulator.RouterSticky{Method: "lbcookie"} }},
		"TLS": {true,
			func(r *simulator.RouterRule) { r.Port, r.Protocol, r.Certificate = 443, "ssl", &tls.Certificate{} }},
		"no protocol": {false, func(r *simulator.RouterRule) { r.Port, r.Protocol = 8080, "" }},
		"a method of other LBs": {false,
			func(r *simulator.RouterRule) { r.Port, r.Sticky = 8080, &simulator.RouterSticky{Method: "x"} }},
	} {
		l, refused := Desired(rule1(tc.change))
		require.Empty(t, refused, name)
		require.Equal(t, tc.http, l[0].HTTP, name)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*simulator.RouterRule){
		`algorithm "random" is not known; HAProxy supports roundrobin, leastconn and source`:            func(r *simulator.RouterRule) { r.Algorithm = "random" },
		`protocol "udp": HAProxy forwards TCP only`:                                                     func(r *simulator.RouterRule) { r.Protocol = "udp" },
		`protocol ssl: the rule has no certificate with an RSA key that was uploaded to this simulator`: func(r *simulator.RouterRule) { r.Protocol = "ssl" },
		"61 source ranges: HAProxy reads at most 60":                                                    func(r *simulator.RouterRule) { r.CIDRList = strings.Repeat("10.0.0.0/8 ", 61) },
		`source ranges "10.0.0.0/8,192.0.2.0/24": HAProxy requires blanks as separators`:                func(r *simulator.RouterRule) { r.CIDRList = "10.0.0.0/8,192.0.2.0/24" },
		`source range "x" is neither a CIDR nor an address`:                                             func(r *simulator.RouterRule) { r.CIDRList = "x" },
		`stickiness expire "soon": a positive number with a unit is needed`: func(r *simulator.RouterRule) {
			r.Sticky = &simulator.RouterSticky{Method: "SourceBased", Params: map[string]string{"expire": "soon"}}
		},
		`stickiness AppCookie: HAProxy 1.6 and newer refuse a configuration with appsession`: func(r *simulator.RouterRule) {
			r.Sticky = &simulator.RouterSticky{
				Method: "AppCookie",
				Params: map[string]string{"cookie-name": "JSESSIONID"},
			}
		},
		`stickiness tablesize "": a number with a unit is needed`: func(r *simulator.RouterRule) {
			r.Sticky = &simulator.RouterSticky{Method: "SourceBased", Params: map[string]string{"tablesize": ""}}
		},
	} {
		l, refused := Desired(rule1(change))
		require.Empty(t, l)
		require.Equal(t, []Refusal{{"1", "web", reason}}, refused)
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	ten, all := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/0")
	in, out := netip.MustParseAddr("10.2.3.4"), netip.MustParseAddr("192.0.2.1")
	allow := func(allow bool, p netip.Prefix) simulator.RouterFilter {
		return simulator.RouterFilter{Allow: allow, Sources: []netip.Prefix{p}}
	}
	for name, tc := range map[string]struct {
		l       Listener
		in, out verdict
	}{
		"nothing filters":          {Listener{}, admitted, admitted},
		"a firewall without rules": {Listener{Filtered: true}, byFirewall, byFirewall},
		"a firewall that is open for some": {Listener{
			Filtered: true,
			Filter:   []simulator.RouterFilter{allow(true, ten)},
		}, admitted, byFirewall},
		"source ranges": {Listener{Ranges: []netip.Prefix{ten}}, admitted, bySourceRange},
		"both: the firewall comes first": {Listener{
			Filtered: true,
			Filter:   []simulator.RouterFilter{allow(true, ten)},
			Ranges:   []netip.Prefix{ten},
		}, admitted, byFirewall},
		"an ACL: the first match decides": {Listener{
			Filtered: true,
			Filter:   []simulator.RouterFilter{allow(false, ten), allow(true, all)},
		}, byFirewall, admitted},
		"an ACL: one that allows goes first": {Listener{
			Filtered: true,
			Filter:   []simulator.RouterFilter{allow(true, all), allow(false, ten)},
		}, admitted, admitted},
	} {
		require.Equal(t, tc.in, tc.l.admit(in), name)
		require.Equal(t, tc.out, tc.l.admit(out), name)
		require.Equal(t, tc.in, tc.l.admit(netip.AddrFrom16(in.As16())), name)
	}
}
