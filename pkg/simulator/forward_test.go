// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/network"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// newIP takes an address for a network of user d/a.
func (h *harness) newIP(net string) string {
	h.t.Helper()
	n := id(h.first(h.call("d/a", "listNetworks", "name", net), "network"))
	return id(h.done("d/a", h.call("d/a", "associateIpAddress", "networkid", n))["ipaddress"].(map[string]any))
}

func TestPortForwarding(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/a"
	ip, n1, n2, m1 := h.newIP("net"), h.vmID("n1"), h.vmID("n2"), h.vmID("m1")
	create := func(pairs ...string) answer {
		return h.call(u, "createPortForwardingRule", append([]string{"ipaddressid", ip, "protocol", "tcp"}, pairs...)...)
	}
	r := h.done(u, create("publicport", "22", "privateport", "22", "virtualmachineid", n1))["portforwardingrule"].(map[string]any)
	for k, want := range map[string]any{"publicendport": "22", "privateport": "22", "vmguestip": "10.1.1.21", "state": "Active", "cidrlist": "", "virtualmachinename": "n1"} {
		require.Equal(t, want, r[k], k)
	}
	require.Len(t, h.call(u, "listFirewallRules", "ipaddressid", ip).items("firewallrule"), 1, "the firewall is opened unless told otherwise")
	addr := h.first(h.call(u, "listPublicIpAddresses", "id", ip), "publicipaddress")
	require.Equal(t, true, addr["hasrules"])

	for text, pairs := range map[string][]string{
		"publicPort is an invalid value: 70000":                   {"publicport", "70000", "privateport", "1", "virtualmachineid", n1},
		"should be of equal sizes":                                {"publicport", "1", "publicendport", "3", "privateport", "1", "virtualmachineid", n1},
		"Private port start should be equal to public port start": {"publicport", "1", "publicendport", "3", "privateport", "4", "privateendport", "6", "virtualmachineid", n1},
		"Vm doesn't belong to network associated with ipAddress":  {"publicport", "1", "privateport", "1", "virtualmachineid", m1},
		"IP Address is not in the VM nic's network":               {"publicport", "1", "privateport", "1", "virtualmachineid", n2, "vmguestip", "10.1.1.121"},
		"Protocol tcp-proxy is not supported in zone 1":           {"publicport", "1", "privateport", "1", "virtualmachineid", n1, "protocol", "tcp-proxy"},
	} {
		h.fails(create(pairs...), 431, wire.CSInvalidValue, text)
	}
	h.fails(create("publicport", "20", "publicendport", "23", "privateport", "20", "privateendport", "23", "virtualmachineid", n2), 537, wire.CSGeneric,
		"The range specified, 20-23, conflicts with rule FirewallRule {")
	h.done(u, create("publicport", "22", "privateport", "22", "virtualmachineid", n2, "protocol", "udp", "vmguestip", "10.1.1.22"))
	lb := func(port string) answer {
		return h.call(u, "createLoadBalancerRule", "publicipid", ip, "name", "x", "algorithm", "roundrobin", "publicport", port, "privateport", "1", "protocol", "tcp")
	}
	h.fails(lb("22"), 537, wire.CSGeneric, "conflicts with rule FirewallRule {")
	h.done(u, lb("80"))
	h.fails(create("publicport", "80", "privateport", "80", "virtualmachineid", n1), 537, wire.CSGeneric, `"purpose":"LoadBalancing"`)
	h.fails(h.call("d/b", "createPortForwardingRule", "ipaddressid", ip, "protocol", "tcp", "publicport", "1", "privateport", "1", "virtualmachineid", n1), 531, wire.CSPermission, wire.NoAccessText)

	got := h.done(u, h.call(u, "updatePortForwardingRule", "id", id(r), "privateport", "2222", "virtualmachineid", n1, "vmguestip", "10.1.1.121"))
	require.Equal(t, "10.1.1.121", got["portforwardingrule"].(map[string]any)["vmguestip"])
	h.broken(u, h.call(u, "updatePortForwardingRule", "id", id(r), "vmguestip", "10.1.1.21"), 431, "vmguestip should be set along with virtualmachineid")
	h.done(u, h.call(u, "createTags", "resourceids", id(r), "resourcetype", "PortForwardingRule", "tags[0].key", "k", "tags[0].value", "v"))
	require.Equal(t, id(r), id(h.first(h.call(u, "listPortForwardingRules", "tags[0].key", "k", "tags[0].value", "v"), "portforwardingrule")))
	require.Empty(t, h.ok(h.call("d/b", "listPortForwardingRules", "id", id(r))).items("portforwardingrule"))
	h.broken(u, h.call(u, "deleteFirewallRule", "id", id(r)), 431, "having purpose Firewall")
	h.fails(h.call("d/b", "deletePortForwardingRule", "id", id(r)), 531, wire.CSPermission, wire.NoAccessText)
	h.done(u, h.call(u, "deletePortForwardingRule", "id", id(r)))
	h.fails(h.call(u, "deletePortForwardingRule", "id", id(r)), 431, wire.CSGeneric, "entity does not exist")
	h.done(u, h.call(u, "disassociateIpAddress", "id", ip))
	require.Empty(t, h.ok(h.call(u, "listPortForwardingRules")).items("portforwardingrule"))
}

func TestStaticNAT(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/a"
	ip, other, n1, n2, m1 := h.newIP("net"), h.newIP("net"), h.vmID("n1"), h.vmID("n2"), h.vmID("m1")
	enable := func(pairs ...string) answer { return h.call(u, "enableStaticNat", pairs...) }
	h.fails(enable("ipaddressid", ip, "virtualmachineid", m1), 431, wire.CSInvalidValue, "Vm doesn't belong to the network with specified id")
	nat := id(h.first(h.call(u, "listPublicIpAddresses", "issourcenat", "true", "associatednetworkid", id(h.first(h.call(u, "listNetworks", "name", "net"), "network"))), "publicipaddress"))
	h.fails(enable("ipaddressid", nat, "virtualmachineid", n1), 431, wire.CSInvalidValue, "is a sourceNat ip address")
	require.Equal(t, true, h.ok(enable("ipaddressid", ip, "virtualmachineid", n1)).body["success"])
	got := h.first(h.call(u, "listPublicIpAddresses", "id", ip, "isstaticnat", "true"), "publicipaddress")
	require.Equal(t, []any{true, n1, "10.1.1.21", "User"}, []any{got["isstaticnat"], got["virtualmachineid"], got["vmipaddress"], got["virtualmachinetype"]})
	card := h.first(h.call(u, "listVirtualMachines", "id", n1), "virtualmachine")["nic"].([]any)[0].(map[string]any)
	require.Equal(t, got["ipaddress"], card["publicip"])

	h.fails(enable("ipaddressid", ip, "virtualmachineid", n2), 537, wire.CSGeneric, "already assigned to antoher vm")
	h.fails(enable("ipaddressid", other, "virtualmachineid", n1), 431, wire.CSInvalidValue, "is already associated with another public ip")
	h.fails(h.call(u, "createPortForwardingRule", "ipaddressid", ip, "protocol", "tcp", "publicport", "1", "privateport", "1", "virtualmachineid", n1), 431, wire.CSInvalidValue, "has static nat enabled")
	h.fails(h.call(u, "createLoadBalancerRule", "publicipid", ip, "name", "x", "algorithm", "source", "publicport", "1", "privateport", "1"), 537, wire.CSGeneric, "Can't do load balance on ip address")
	h.done(u, h.call(u, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "22"))
	h.broken("d/b", h.call("d/b", "disableStaticNat", "ipaddressid", ip), 530, wire.NoAccessText)
	h.done(u, h.call(u, "disableStaticNat", "ipaddressid", ip))
	require.Empty(t, h.ok(h.call(u, "listFirewallRules", "ipaddressid", ip)).items("firewallrule"), "its firewall rules go with it")
	h.broken(u, h.call(u, "disableStaticNat", "ipaddressid", ip), 431, "is not associated with any vm Id")
	h.done(u, h.call(u, "createPortForwardingRule", "ipaddressid", ip, "protocol", "tcp", "publicport", "1", "privateport", "1", "virtualmachineid", n1))
	h.fails(enable("ipaddressid", ip, "virtualmachineid", n2), 537, wire.CSGeneric, "already has PortForwarding rules assigned")
}

// TestTierBinding ties a VPC address to a tier with its first rule and frees it with the last.
func TestTierBinding(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/a"
	v := h.newVPC()
	tier := id(h.ok(h.tier(v, "t1", "10.2.1.1")).body["network"].(map[string]any))
	n, _ := h.sim.st.Networks.Get(tier)
	m, _ := h.sim.st.VMs.Get(h.vmID("n1"))
	h.sim.st.AddNIC(m, &store.NIC{Network: n, IP: "10.2.1.9"})
	a := h.call(u, "associateIpAddress", "vpcid", id(v))
	require.Equal(t, store.IPAllocated, h.done(u, a)["ipaddress"].(map[string]any)["state"])
	ip := a.str("id")
	tierOf := func() any {
		return h.first(h.call(u, "listPublicIpAddresses", "id", ip), "publicipaddress")["associatednetworkid"]
	}
	require.Nil(t, tierOf())
	pf := []string{"ipaddressid", ip, "protocol", "tcp", "publicport", "1", "privateport", "1", "virtualmachineid", m.UUID}
	h.fails(h.call(u, "createPortForwardingRule", pf...), 431, wire.CSInvalidValue, "is not associated with any network and no networkId is passed in")
	pf = append(pf, "networkid", tier)
	h.fails(h.call(u, "createPortForwardingRule", append(pf, "openfirewall", "true")...), 431, wire.CSInvalidValue, "Can't have openFirewall=true when IP address belongs to VPC")
	r := h.done(u, h.call(u, "createPortForwardingRule", pf...))["portforwardingrule"].(map[string]any)
	require.Equal(t, tier, tierOf())
	h.done(u, h.call(u, "deletePortForwardingRule", "id", id(r)))
	require.Nil(t, tierOf())
	h.ok(h.call(u, "enableStaticNat", "ipaddressid", ip, "virtualmachineid", m.UUID, "networkid", tier))
	require.Equal(t, tier, tierOf())
	h.done(u, h.call(u, "disableStaticNat", "ipaddressid", ip))
	require.Nil(t, tierOf())
}

func TestEgressRules(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/a"
	net := id(h.first(h.call(u, "listNetworks", "name", "net"), "network"))
	create := func(pairs ...string) answer {
		return h.call(u, "createEgressFirewallRule", append([]string{"networkid", net}, pairs...)...)
	}
	r := h.done(u, create("protocol", "tcp", "startport", "80", "destcidrlist", "8.8.8.0/24"))["firewallrule"].(map[string]any)
	for k, want := range map[string]any{"traffictype": "Egress", "cidrlist": "10.1.1.0/24", "destcidrlist": "8.8.8.0/24", "endport": 80.0, "networkid": net, "state": "Active"} {
		require.Equal(t, want, r[k], k)
	}
	require.NotContains(t, r, "ipaddressid")
	h.fails(create("protocol", "tcp", "startport", "80", "destcidrlist", "8.8.8.0/24"), 537, wire.CSGeneric, "The range specified, 80-80, conflicts with rule")
	h.done(u, create("protocol", "tcp", "startport", "80"))
	h.fails(create("protocol", "tcp", "cidrlist", "10.9.0.0/24"), 431, wire.CSGeneric, "[10.9.0.0/24] is not within the guest CIDR [10.1.1.0/24]. ")
	h.fails(create("protocol", "all", "startport", "80"), 431, wire.CSInvalidValue, "ports must not be informed to protocol ALL")
	h.fails(create("protocol", "gre"), 431, wire.CSInvalidValue, "Protocol gre is not supported in zone 1")
	h.done(u, create("protocol", "all"))
	h.fails(create("protocol", "all"), 537, wire.CSGeneric, "There is already a firewall rule specified with protocol = all and no ports")
	h.fails(h.call("d/b", "createEgressFirewallRule", "networkid", net, "protocol", "tcp"), 531, wire.CSPermission, wire.NoAccessText)
	require.Len(t, h.call(u, "listEgressFirewallRules", "networkid", net).items("firewallrule"), 3)
	require.Empty(t, h.ok(h.call(u, "listFirewallRules", "networkid", net)).items("firewallrule"))
	h.done(u, h.call(u, "deleteEgressFirewallRule", "id", id(r)))
	require.Len(t, h.call(u, "listEgressFirewallRules").items("firewallrule"), 2)
}

func TestReservedAddresses(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	const u = "d/few"
	free := h.call(u, "listPublicIpAddresses", "state", "Free").items("publicipaddress")
	ip := h.ok(h.call(u, "reserveIpAddress", "id", id(free[0]))).body["ipaddress"].(map[string]any)
	require.Equal(t, store.IPReserved, ip["state"])
	require.Empty(t, h.ok(h.call(u, "listPublicIpAddresses")).items("publicipaddress"))
	require.Len(t, h.ok(h.call(u, "listPublicIpAddresses", "state", "Reserved")).items("publicipaddress"), 1)
	h.ok(h.call(u, "reserveIpAddress", "id", id(ip)))
	h.fails(h.call("d/b", "reserveIpAddress", "id", id(ip)), 431, wire.CSInvalidValue, "has already been reserved for another account")
	h.fails(h.call(u, "reserveIpAddress", "id", id(free[1])), 532, wire.CSAccountLimit, "Maximum number of public IP addresses for account: few has been exceeded.")
	h.fails(h.call("d/b", "releaseIpAddress", "id", id(ip)), 531, wire.CSPermission, wire.NoAccessText)
	n := h.ok(h.call(u, "createNetwork", "zoneid", h.ids().zone, "name", "n", "networkofferingid", h.ids().isolated)).body["network"].(map[string]any)
	a := h.call(u, "associateIpAddress", "networkid", id(n), "ipaddress", ip["ipaddress"].(string))
	require.Equal(t, id(ip), a.str("id"), "a reserved address counts already")
	h.done(u, a)
	h.fails(h.call(u, "releaseIpAddress", "id", id(ip)), 431, wire.CSInvalidValue, "Unable to release a public IP in Allocated state")
	h.fails(h.call("d/b", "reserveIpAddress", "id", id(ip)), 431, wire.CSInvalidValue, "Unable to reserve a IP in Allocated state.")
	h.done(u, h.call(u, "disassociateIpAddress", "id", id(ip)))
	h.ok(h.call("admin", "reserveIpAddress", "id", id(ip), "account", "few", "domainid", h.ids().dom))
	h.ok(h.call(u, "releaseIpAddress", "id", id(ip)))
	require.Len(t, h.ok(h.call(u, "listPublicIpAddresses", "id", id(ip), "state", "Free")).items("publicipaddress"), 1)
	got := h.done("admin", h.call("admin", "updateIpAddress", "id", id(ip), "fordisplay", "false"))["ipaddress"].(map[string]any)
	require.Equal(t, false, got["fordisplay"])
}

func TestPhysicalLists(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	sys := h.call("admin", "listPublicIpAddresses", "listall", "true").items("publicipaddress")[0]
	require.Equal(t, []any{"system", true, "ConsoleProxy"}, []any{sys["account"], sys["issystem"], sys["virtualmachinetype"]})
	p := h.first(h.call("admin", "listPhysicalNetworks"), "physicalnetwork")
	require.Equal(t, p["id"], sys["physicalnetworkid"])
	r := h.first(h.call("admin", "listVlanIpRanges", "networkid", sys["networkid"].(string)), "vlaniprange")
	require.Equal(t, []any{sys["vlanid"], "203.0.113.10", "203.0.113.40"}, []any{r["id"], r["startip"], r["endip"]})
	require.Len(t, h.call("admin", "listNetworkServiceProviders", "state", "Enabled").items("networkserviceprovider"), len(network.EnabledProviders))
	lb := h.first(h.call("admin", "listSupportedNetworkServices", "service", "Lb"), "networkservice")
	require.Len(t, lb["provider"], 3)
	h.fails(h.call("admin", "listSupportedNetworkServices", "service", "Nope"), 431, wire.CSInvalidValue, "Invalid Network Service=Nope")
	h.fails(h.call("d/a", "listPhysicalNetworks"), wire.CodeUnsupported, wire.CSGeneric, "does not exist or is not available")
}
