// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

const networkWorld = `
zones: [{name: z, publicRanges: [203.0.113.10-203.0.113.40]}]
domains: [{path: ROOT/d}, {path: ROOT/other}]
accounts:
  - {name: system, role: Root Admin}
  - {name: a, domain: d, users: [{name: a}]}
  - {name: b, domain: d, users: [{name: b}]}
  - {name: da, domain: d, role: Domain Admin, users: [{name: da}]}
  - {name: few, domain: d, limits: {networks: 1, vpcs: 0, publicIPs: 1}, users: [{name: few}]}
projects: [{name: p, owner: a}]
networks:
  - {name: net, account: a}
  - {name: net2, account: a}
virtualMachines:
  - {name: n1, account: a, nics: [{network: net, ip: 10.1.1.21, secondary: [10.1.1.121]}]}
  - {name: n2, account: a, nics: [{network: net, ip: 10.1.1.22}]}
  - {name: m1, account: a, nics: [{network: net2, ip: 10.1.1.31}]}
`

func networkHarness(t *testing.T) *harness {
	t.Helper()
	w, err := LoadWorld(bytes.NewReader([]byte(networkWorld)))
	require.NoError(t, err)
	return start(t, Options{World: w})
}

// ids are what calls of the tests need again and again.
type testIDs struct{ zone, dom, isolated, shared, l2, l2vlan, tier, tierLB, vpc string }

func (h *harness) ids() testIDs {
	h.t.Helper()
	st := h.sim.st
	off := func(name string) string {
		o, ok := st.NetOffs.Find(func(o *store.NetworkOffering) bool { return o.Spec.Name == name })
		require.True(h.t, ok, name)
		return o.UUID
	}
	d, _ := st.DomainByPath("d")
	return testIDs{
		zone: st.Zones.Rows[0].UUID, dom: d.UUID, isolated: off("DefaultIsolatedNetworkOfferingWithSourceNatService"), shared: off("DefaultSharedNetworkOffering"),
		l2: off("DefaultL2NetworkOffering"), l2vlan: off("DefaultL2NetworkOfferingVlan"), tier: off("DefaultIsolatedNetworkOfferingForVpcNetworks"),
		tierLB: off("DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB"), vpc: st.VPCOffering(store.VPCOfferingName).UUID,
	}
}

func TestCreateNetwork(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	is := h.ids()
	create := func(user string, pairs ...string) map[string]any {
		t.Helper()
		a := h.call(user, "createNetwork", append([]string{"zoneid", is.zone}, pairs...)...)
		h.ok(a)
		return a.body["network"].(map[string]any)
	}
	n := create("d/b", "name", "iso", "networkofferingid", is.isolated)
	for k, want := range map[string]any{
		"state": "Allocated", "type": "Isolated", "acltype": "Account", "account": "b", "cidr": "10.1.1.0/24", "gateway": "10.1.1.1", "displaytext": "iso",
		"egressdefaultpolicy": false,
	} {
		require.Equal(t, want, n[k], k)
	}
	require.Regexp(t, "^cs[0-9a-f]+cloud.internal$", n["networkdomain"])

	s := create("admin", "name", "sh", "networkofferingid", is.shared, "vlan", "300", "gateway", "172.30.0.1", "netmask", "255.255.255.0",
		"startip", "172.30.0.10", "endip", "172.30.0.99", "domainid", is.dom, "acltype", "domain")
	for k, want := range map[string]any{"state": "Setup", "acltype": "Domain", "subdomainaccess": true, "vlan": "300", "broadcasturi": "vlan://300", "domainid": is.dom} {
		require.Equal(t, want, s[k], k)
	}
	require.NotContains(t, s, "account")
	require.Len(t, h.ok(h.call("d/b", "listNetworks", "id", id(s))).items("network"), 1, "the domain's accounts see it")

	l2 := create("d/b", "name", "l2", "networkofferingid", is.l2)
	require.NotContains(t, l2, "cidr")
	acc := create("admin", "name", "given", "networkofferingid", is.isolated, "account", "b", "domainid", is.dom, "gateway", "10.9.0.1", "netmask", "255.255.0.0")
	require.Equal(t, "b", acc["account"])
	require.Equal(t, "10.9.0.0/16", acc["cidr"])
	p := create("d/a", "name", "proj", "networkofferingid", is.isolated, "projectid", h.sim.st.Projects.Rows[0].UUID)
	require.Equal(t, "p", p["project"])
	nat := create("d/b", "name", "nat", "networkofferingid", is.isolated, "sourcenatipaddress", "203.0.113.33")
	ip := h.first(h.call("d/b", "listPublicIpAddresses", "ipaddress", "203.0.113.33"), "publicipaddress")
	require.Equal(t, true, ip["issourcenat"])
	require.Equal(t, id(nat), ip["associatednetworkid"])
}

func TestCreateNetworkRefused(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	is := h.ids()
	h.ok(h.call("d/few", "createNetwork", "zoneid", is.zone, "name", "first", "networkofferingid", is.isolated))
	for name, c := range map[string]struct {
		user  string
		pairs []string
		code  int
		text  string
	}{
		"no name":           {"d/a", []string{"networkofferingid", is.isolated}, 431, "missing parameter name"},
		"domain acl":        {"d/a", []string{"networkofferingid", is.isolated, "acltype", "Domain"}, 431, "AclType should be Account for network of type Isolated"},
		"bad acl":           {"d/a", []string{"networkofferingid", is.isolated, "acltype", "x"}, 431, "Incorrect aclType specified"},
		"subdomains":        {"d/a", []string{"networkofferingid", is.isolated, "subdomainaccess", "true"}, 431, "can be specified only with aclType=Domain"},
		"shared by user":    {"d/a", []string{"networkofferingid", is.shared}, 431, "This user can only create an Isolated network"},
		"vlan by user":      {"d/a", []string{"networkofferingid", is.isolated, "vlan", "300"}, 431, "Only ROOT admin is allowed to specify vlanId"},
		"large range":       {"d/a", []string{"networkofferingid", is.isolated, "gateway", "10.0.0.1", "netmask", "255.0.0.0"}, 431, "Cidr size can't be less than 22"},
		"gateway":           {"d/a", []string{"networkofferingid", is.isolated, "gateway", "x", "netmask", "255.255.255.0"}, 431, "Gateway parameter is invalid"},
		"broadcast":         {"d/a", []string{"networkofferingid", is.isolated, "gateway", "10.1.1.255", "netmask", "255.255.255.0"}, 431, "Either the IP is broadcast or network IP."},
		"netmask":           {"d/a", []string{"networkofferingid", is.isolated, "gateway", "10.1.1.1", "netmask", "255.0.255.0"}, 431, "Invalid netmask"},
		"public range":      {"d/a", []string{"networkofferingid", is.isolated, "gateway", "8.8.8.1", "netmask", "255.255.255.0"}, 431, "is not RFC 1918 or 6598 compliant"},
		"tier offering":     {"d/a", []string{"networkofferingid", is.tier}, 431, "Network offering can be used for VPC networks only"},
		"domain name":       {"d/a", []string{"networkofferingid", is.isolated, "networkdomain", "-x"}, 431, "Invalid network domain."},
		"dns":               {"d/a", []string{"networkofferingid", is.isolated, "dns1", "x"}, 431, "Invalid IPv4 for IPv4 DNS1"},
		"no vlan":           {"admin", []string{"networkofferingid", is.l2vlan}, 431, "Vlan has to be specified"},
		"vlan not wanted":   {"admin", []string{"networkofferingid", is.l2, "vlan", "300"}, 431, "Can't specify vlan"},
		"dynamic vlan":      {"admin", []string{"networkofferingid", is.l2vlan, "vlan", "150"}, 431, "is already being used for dynamic vlan allocation"},
		"shared, no range":  {"admin", []string{"networkofferingid", is.shared, "vlan", "301"}, 431, "Gateway/netmask are required when creating Shared networks."},
		"other's account":   {"d/a", []string{"networkofferingid", is.isolated, "account", "b", "domainid", is.dom}, 531, "Can't create/list resources for account b"},
		"unknown account":   {"admin", []string{"networkofferingid", is.isolated, "account", "zz", "domainid", is.dom}, 431, "Unable to find account zz in domain Domain {"},
		"taken address":     {"d/a", []string{"networkofferingid", is.isolated, "sourcenatipaddress", "203.0.113.10"}, 533, "Insufficient address capacity"},
		"domain admin":      {"d/da", []string{"networkofferingid", is.shared}, 431, "AclType must be specified for shared network created by domain admin"},
		"unknown offering":  {"d/a", []string{"networkofferingid", is.zone}, 431, "entity does not exist"},
		"limit":             {"d/few", []string{"networkofferingid", is.isolated}, 0, "is exceeded"},
		"physical network":  {"admin", []string{"networkofferingid", is.isolated, "physicalnetworkid", h.sim.st.Zones.Rows[0].PhysicalNetID}, 431, "of guest IP type Shared only"},
		"cidr size, routed": {"d/a", []string{"networkofferingid", is.isolated, "cidrsize", "24"}, 431, "only applicable on Isolated networks with Routed mode"},
	} {
		pairs := append([]string{"zoneid", is.zone, "name", "x"}, c.pairs...)
		if name == "no name" {
			pairs = append([]string{"zoneid", is.zone}, c.pairs...)
		}
		a := h.call(c.user, "createNetwork", pairs...)
		if c.code != 0 {
			require.Equal(t, c.code, a.status, "%s: %s", name, a.raw)
		}
		require.Contains(t, a.body["errortext"], c.text, name)
	}
}

func TestNetworkLife(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	is := h.ids()
	const u = "d/a"
	net := id(h.first(h.call(u, "listNetworks", "name", "net"), "network"))
	h.fails(h.call("d/b", "deleteNetwork", "id", net), 531, wire.CSPermission, wire.NoAccessText)
	h.broken(u, h.call(u, "deleteNetwork", "id", net), 530, "Failed to delete network")
	h.broken(u, h.call(u, "deleteNetwork", "id", net, "forced", "true"), 431, "can only be called by root admins")
	require.Equal(t, true, h.done(u, h.call(u, "restartNetwork", "id", net, "cleanup", "true"))["success"])

	n := id(h.ok(h.call(u, "createNetwork", "zoneid", is.zone, "name", "short", "networkofferingid", is.isolated)).body["network"].(map[string]any))
	h.broken(u, h.call(u, "restartNetwork", "id", n), 431, "Network is not in the right state to be restarted")
	got := h.done(u, h.call(u, "updateNetwork", "id", n, "name", "long", "guestvmcidr", "10.1.1.0/26"))["network"].(map[string]any)
	for k, want := range map[string]any{"name": "long", "displaytext": "short", "cidr": "10.1.1.0/26", "networkcidr": "10.1.1.0/24", "reservediprange": "10.1.1.64-10.1.1.254"} {
		require.Equal(t, want, got[k], k)
	}
	h.broken(u, h.call(u, "updateNetwork", "id", n, "guestvmcidr", "10.2.0.0/26"), 431, "should be a subset of network CIDR")
	h.broken(u, h.call(u, "updateNetwork", "id", n, "networkofferingid", is.tier), 431, "Can't update as the new offering is a vpc offering")

	ip := h.ok(h.call(u, "associateIpAddress", "networkid", n))
	h.done(u, ip)
	h.done(u, h.call(u, "createEgressFirewallRule", "networkid", n, "protocol", "tcp", "startport", "80"))
	h.done(u, h.call(u, "createFirewallRule", "ipaddressid", ip.str("id"), "protocol", "tcp", "startport", "80"))
	h.done(u, h.call(u, "deleteNetwork", "id", n))
	require.Empty(t, h.ok(h.call(u, "listNetworks", "id", n)).items("network"))
	require.Empty(t, h.ok(h.call(u, "listPublicIpAddresses", "id", ip.str("id"))).items("publicipaddress"), "its addresses are free")
	require.Empty(t, h.ok(h.call(u, "listEgressFirewallRules")).items("firewallrule"))
	require.Empty(t, h.ok(h.call(u, "listFirewallRules")).items("firewallrule"))
}

// TestImplement follows a network from its first VM on.
func TestImplement(t *testing.T) {
	t.Parallel()
	h := networkHarness(t)
	is := h.ids()
	n := h.ok(h.call("d/b", "createNetwork", "zoneid", is.zone, "name", "x", "networkofferingid", is.isolated)).body["network"].(map[string]any)
	row, ok := h.sim.st.Networks.Get(id(n))
	require.True(t, ok)
	h.sim.st.Implement(row, h.clock.Now())
	got := h.first(h.call("admin", "listNetworks", "id", id(n), "listall", "true"), "network")
	require.Equal(t, "Implemented", got["state"])
	require.NotEmpty(t, got["vlan"])
	ip := h.first(h.call("d/b", "listPublicIpAddresses", "associatednetworkid", id(n)), "publicipaddress")
	require.Equal(t, true, ip["issourcenat"])
	h.broken("d/b", h.call("d/b", "disassociateIpAddress", "id", id(ip)), 530, "ip address is used for source nat purposes")
	r := h.first(h.call("admin", "listRouters", "networkid", id(n), "listall", "true"), "router")
	require.Equal(t, ip["ipaddress"], r["publicip"])
	require.Len(t, h.ok(h.call("admin", "listRouters", "id", id(r))).items("router"), 1)
	h.fails(h.call("admin", "listRouters", "id", id(n)), 431, wire.CSGeneric, "entity does not exist")
	require.Empty(t, h.ok(h.call("admin", "listRouters")).items("router"), "without listall an admin sees its own only")
}
