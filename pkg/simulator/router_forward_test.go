// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRouterForwards: the router of an isolated network ignores the cidrlist and applies the firewall of the address.
// The router of a VPC applies the cidrlist, and the tier's ACL to the private port.
func TestRouterForwards(t *testing.T) {
	t.Parallel()
	some := func(s ...string) []netip.Prefix { return prefixes(s) }
	vpc := startScript(t, "router", Options{})
	vpc.play(`
		a replaceNetworkACLList networkid={networks:tier} aclid={aclLists:l}
		a createPortForwardingRule ipaddressid={ips:203.0.113.9} networkid={networks:tier} protocol=tcp publicport=81 privateport=85 virtualmachineid={vms:tier-1} \
			cidrlist=192.0.2.0/24,10.1.2.3/8 > first
		+ publicport=82 privateport=30082 cidrlist=- protocol=UDP > second
	`)
	forwards := vpc.sim.Router().Forwards
	require.Equal(t, []RouterForward{{
		ID:          vpc.vars["first"],
		Address:     netip.MustParseAddr("203.0.113.9"),
		Protocol:    "tcp",
		Port:        81,
		EndPort:     81,
		PrivatePort: 85,
		VM:          "tier-1",
		Guest:       netip.MustParseAddr("10.2.1.11"),
		Running:     true,
		Sources:     some("192.0.2.0/24", "10.0.0.0/8"),
		Filtered:    true,
		ByACL:       true,
		Filter: []RouterFilter{
			{Sources: some("192.0.2.1/32")},
			{Allow: true, Sources: some("192.0.2.0/24"), From: 80, To: 90},
		},
	}, {
		ID:          vpc.vars["second"],
		Address:     netip.MustParseAddr("203.0.113.9"),
		Protocol:    "udp",
		Port:        82,
		EndPort:     82,
		PrivatePort: 30082,
		VM:          "tier-1",
		Guest:       netip.MustParseAddr("10.2.1.11"),
		Running:     true,
		Filtered:    true,
		ByACL:       true,
		Filter:      []RouterFilter{{Sources: some("192.0.2.1/32")}},
	}}, forwards)

	isolated := startScript(t, "network", Options{})
	isolated.play(`
		d/a associateIpAddress networkid={net} > ip ipaddress=address
		d/a createPortForwardingRule ipaddressid={ip} protocol=udp publicport=7000 publicendport=7009 privateport=7000 privateendport=7009 \
			virtualmachineid={n1} cidrlist=192.0.2.0/24 openfirewall=false > rule
		d/a createFirewallRule ipaddressid={ip} protocol=udp startport=7005 endport=8000 cidrlist=198.51.100.0/24
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=7000 endport=8000 cidrlist=0.0.0.0/0
		d/a createFirewallRule ipaddressid={ip} protocol=udp startport=7010 endport=8000 cidrlist=0.0.0.0/0
		d/a stopVirtualMachine id={n1}
	`)
	require.Equal(t, []RouterForward{{
		ID:          isolated.vars["rule"],
		Address:     netip.MustParseAddr(isolated.vars["address"]),
		Protocol:    "udp",
		Port:        7000,
		EndPort:     7009,
		PrivatePort: 7000,
		VM:          "n1",
		Guest:       netip.MustParseAddr("10.1.1.21"),
		Hairpin:     netip.MustParsePrefix("10.1.1.0/24"),
		Filtered:    true,
		Filter:      []RouterFilter{{Allow: true, Sources: some("198.51.100.0/24"), From: 7005, To: 8000}},
	}}, isolated.sim.Router().Forwards, "a stopped VM keeps its rules")
	isolated.play(`&d/a deletePortForwardingRule id={rule}`)
	require.Len(t, isolated.sim.Router().Forwards, 1, "in force until the job has ended")
}
