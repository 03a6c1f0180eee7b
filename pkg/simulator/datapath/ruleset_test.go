// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

func cidrs(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// forward returns a UDP forward of port 53 to port 30053 of a worker.
func forward(change func(*simulator.RouterForward)) simulator.RouterForward {
	f := simulator.RouterForward{
		ID:          "f",
		Address:     netip.MustParseAddr("203.0.113.9"),
		Protocol:    "udp",
		Port:        53,
		EndPort:     53,
		PrivatePort: 30053,
		VM:          "one",
		Guest:       netip.MustParseAddr("10.1.1.21"),
		Running:     true,
	}
	if change != nil {
		change(&f)
	}
	return f
}

// chain returns the rules of a chain.
func chain(ruleset, name string) []string {
	_, rest, _ := strings.Cut(ruleset, "chain "+name+" {\n")
	rest, _, _ = strings.Cut(rest, "\t}\n")
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(rest), "\n")[1:] {
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func TestRuleset(t *testing.T) {
	t.Parallel()
	const tracked = "ct state established,related accept"
	const public, private = "ip daddr 203.0.113.9 udp dport 53 ", "ip daddr 10.1.1.21 udp dport 30053 "
	for name, c := range map[string]struct {
		forwards                          []simulator.RouterForward
		firewall, destination, acl, hairs []string
	}{
		"none": {},
		"an isolated network: the firewall filters, the first rule takes all": {
			forwards: []simulator.RouterForward{
				forward(func(f *simulator.RouterForward) {
					f.Hairpin, f.Filtered = netip.MustParsePrefix("10.1.1.0/24"), true
					f.Filter = []simulator.RouterFilter{
						{Allow: true, Sources: cidrs("198.51.100.0/24", "192.0.2.0/24"), From: 1, To: 60},
						{Allow: true},
					}
				}),
				forward(func(f *simulator.RouterForward) { f.Guest = netip.MustParseAddr("10.1.1.22") }),
			},
			firewall: []string{tracked, public + "ip saddr { 192.0.2.0/24, 198.51.100.0/24 } udp dport 1-60 accept",
				public + "drop"},
			destination: []string{public + "dnat to 10.1.1.21:30053", public + "dnat to 10.1.1.22:30053"},
			hairs:       []string{"ct status dnat ip saddr 10.1.1.0/24 " + private + "masquerade"},
		},
		"a VPC: sources choose, the ACL filters by the private port": {
			forwards: []simulator.RouterForward{
				forward(func(f *simulator.RouterForward) {
					f.Sources, f.ByACL, f.Filtered = cidrs("0.0.0.0/1", "10.0.0.0/8"), true, true
					f.Filter = []simulator.RouterFilter{
						{Sources: cidrs("10.9.0.0/16")},
						{Allow: true, Sources: cidrs("0.0.0.0/0"), From: 30053, To: 30053},
					}
				}),
				forward(func(f *simulator.RouterForward) { f.Sources, f.ByACL = cidrs("128.0.0.0/1"), true }),
			},
			destination: []string{public + "ip saddr 0.0.0.0/1 dnat to 10.1.1.21:30053",
				public + "ip saddr 128.0.0.0/1 dnat to 10.1.1.21:30053"},
			acl: []string{
				tracked, "ct status dnat " + private + "ip saddr 10.9.0.0/16 drop",
				"ct status dnat " + private + "udp dport 30053 accept", "ct status dnat " + private + "drop",
			},
		},
		"a range keeps its ports": {
			forwards: []simulator.RouterForward{forward(func(f *simulator.RouterForward) {
				f.Protocol, f.Port, f.EndPort, f.PrivatePort, f.Filtered = "tcp", 7000, 7010, 7000, true
			})},
			firewall:    []string{tracked, "ip daddr 203.0.113.9 tcp dport 7000-7010 drop"},
			destination: []string{"ip daddr 203.0.113.9 tcp dport 7000-7010 dnat to 10.1.1.21"},
		},
	} {
		text := Ruleset(c.forwards)
		require.True(t,
			strings.HasPrefix(text,
				"table ip cloudstack_router\nflush table ip cloudstack_router\ntable ip cloudstack_router {\n"), text)
		for of, want := range map[string][]string{
			"firewall":    c.firewall,
			"destination": c.destination,
			"own":         c.destination,
			"acl":         c.acl,
			"hairpin":     c.hairs,
		} {
			require.Equal(t, want, chain(text, of), "%s: %s", name, of)
		}
	}
}
