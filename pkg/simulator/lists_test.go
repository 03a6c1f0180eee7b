// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func TestPaging(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	list := func(pairs ...string) answer { return h.call(owner, "listVirtualMachines", pairs...) }
	for name, tc := range map[string]struct {
		pairs        []string
		count, items int
	}{
		"none":           {nil, 3, 3},
		"page 1 of 2":    {[]string{"page", "1", "pagesize", "2"}, 3, 2},
		"page 2 of 2":    {[]string{"page", "2", "pagesize", "2"}, 3, 1},
		"page 0 is 1":    {[]string{"page", "0", "pagesize", "2"}, 3, 2},
		"past the end":   {[]string{"page", "9", "pagesize", "2"}, 3, 0},
		"pagesize 0":     {[]string{"page", "1", "pagesize", "0"}, 3, 0},
		"everything":     {[]string{"pagesize", "-1"}, 3, 3},
		"count only":     {[]string{"retrieveonlyresourcecount", "true"}, 3, 0},
		"unknown filter": {[]string{"bogus", "x"}, 3, 3},
	} {
		a := h.ok(list(tc.pairs...))
		require.EqualValues(t, tc.count, a.body["count"], name)
		require.Len(t, a.items("virtualmachine"), tc.items, name)
		if tc.items == 0 {
			require.NotContains(t, a.body, "virtualmachine", name)
		}
	}
	require.Empty(t, h.ok(list("name", "nope")).body, "an empty list has neither count nor array")
	h.fails(list("page", "1"), 431, wire.CSGeneric, `"pagesize" parameter is required when "page" is specified`)
	h.fails(list("pagesize", "5"), 431, wire.CSGeneric, `"page" parameter is required when "pagesize" is specified`)
	h.fails(list("page", "1", "pagesize", "501"), 431, wire.CSInvalidValue, "Page size can't exceed max allowed page size value: 500")
	h.fails(list("page", "1", "pagesize", "-1"), 431, wire.CSInvalidValue, "Can't specify page parameter when pagesize is -1 (Unlimited)")
	vms := list().items("virtualmachine")
	require.Len(t, list("ids", id(vms[0])+","+id(vms[2])).items("virtualmachine"), 2)
	h.fails(list("ids", id(vms[0])+",00000000-0000-4000-8000-000000000000"), 431, wire.CSGeneric, "Invalid parameter ids value=00000000-0000-4000-8000-000000000000")
	h.fails(list("id", id(vms[0]), "ids", id(vms[0])), 431, wire.CSInvalidValue, "Specify either id or ids")
	h.fails(list("details", "bogus"), 431, wire.CSInvalidValue, "non permitted value")
	require.NotContains(t, list("details", "nics").items("virtualmachine")[0], "serviceofferingname")
	require.Equal(t, "Small Instance", list("details", "nics,servoff").items("virtualmachine")[0]["serviceofferingname"])
	require.Len(t, list("id", strings.ToUpper(id(vms[0]))).items("virtualmachine"), 1, "ids match in any case")
}

const projectWorld = `
zones: [{name: z, publicRanges: [203.0.113.1-203.0.113.9]}]
domains: [{path: ROOT/d}]
accounts:
  - {name: a, domain: d, users: [{name: a}]}
  - {name: b, domain: d, users: [{name: b}]}
  - {name: da, domain: d, role: Domain Admin, users: [{name: da}]}
projects: [{name: p, owner: a}, {name: paused, owner: a, state: Suspended}]
vpcs: [{name: v, cidr: 10.2.0.0/16, account: a}]
networks:
  - {name: own, account: a}
  - {name: proj, project: p}
  - {name: tier, vpc: v, cidr: 10.2.1.0/24, acl: default_allow}
  - {name: tier2, vpc: v, cidr: 10.2.2.0/24}
  - {name: shared, type: Shared, domain: d, cidr: 172.30.0.0/24}
virtualMachines:
  - {name: own-1, account: a, nics: [{network: own}]}
  - {name: proj-1, project: p, nics: [{network: proj}]}
  - {name: tier-1, account: a, nics: [{network: tier}]}
  - {name: b-1, account: b, nics: [{network: shared}]}
publicIPs: [{address: 203.0.113.8, vpc: v}]
`

func projectHarness(t *testing.T) *harness {
	t.Helper()
	w, err := LoadWorld(bytes.NewReader([]byte(projectWorld)))
	require.NoError(t, err)
	return start(t, Options{World: w})
}

// TestOwnerFilters follows section 1.10 of the API contract.
func TestOwnerFilters(t *testing.T) {
	t.Parallel()
	h := projectHarness(t)
	p := id(h.first(h.call("d/a", "listProjects", "name", "p"), "project"))
	seen := func(user string, pairs ...string) string {
		t.Helper()
		var out []string
		for _, v := range h.ok(h.call(user, "listVirtualMachines", pairs...)).items("virtualmachine") {
			out = append(out, v["name"].(string))
		}
		return strings.Join(out, " ")
	}
	pvm := id(h.first(h.call("d/a", "listVirtualMachines", "projectid", p), "virtualmachine"))
	own := id(h.first(h.call("d/a", "listVirtualMachines", "name", "own-1"), "virtualmachine"))
	dom := h.first(h.call("d/a", "listVirtualMachines"), "virtualmachine")["domainid"].(string)

	require.Equal(t, "own-1 tier-1", seen("d/a"))
	require.Equal(t, "own-1 tier-1", seen("d/a", "listall", "true"))
	require.Empty(t, seen("d/a", "id", pvm), "a project's VM is hidden without projectid")
	require.Equal(t, "proj-1", seen("d/a", "id", pvm, "projectid", p))
	require.Equal(t, "proj-1", seen("d/a", "projectid", "-1"))
	require.Equal(t, "own-1 proj-1 tier-1", seen("d/a", "projectid", "-1", "listall", "true"))
	require.Empty(t, seen("d/b", "id", own))
	require.Empty(t, seen("d/da"))
	require.Equal(t, "own-1 tier-1 b-1", seen("d/da", "listall", "true"))
	require.Equal(t, "own-1", seen("d/da", "id", own))
	require.Empty(t, seen("admin"))
	require.Equal(t, "own-1 tier-1 b-1", seen("admin", "listall", "true"))
	require.Equal(t, "proj-1", seen("admin", "id", pvm))
	require.Equal(t, "own-1 tier-1", seen("admin", "account", "a", "domainid", dom))
	h.fails(h.call("d/b", "listVirtualMachines", "projectid", p), 432, wire.CSGeneric, "is not available for this account/user in project ["+p+"]")
	h.fails(h.call("d/a", "listVirtualMachines", "projectid", p, "account", "a"), 431, wire.CSInvalidValue, "Account and projectId can't be specified together")
	h.fails(h.call("d/a", "associateIpAddress", "projectid", id(h.first(h.call("d/a", "listProjects", "name", "paused"), "project")), "networkid",
		id(h.first(h.call("d/a", "listNetworks", "name", "own"), "network"))), 531, wire.CSPermission, "no longer active")
	vm := h.first(h.call("d/a", "listVirtualMachines", "projectid", p), "virtualmachine")
	require.NotContains(t, vm, "account")
	require.Equal(t, "p", vm["project"])
	require.Len(t, h.call("d/b", "listNetworks").items("network"), 1, "the domain's shared network")
	require.Empty(t, h.call("admin", "listNetworks", "id", id(h.first(h.call("d/a", "listNetworks", "name", "own"), "network"))).items("network"))

	h.done("d/a", h.call("d/a", "addAccountToProject", "projectid", p, "account", "b"))
	require.Equal(t, "proj-1", seen("d/b", "projectid", p))
}

// TestAddressOfVPC: bound to a tier by its first rule, unbound with the last; the source NAT trap.
func TestAddressOfVPC(t *testing.T) {
	t.Parallel()
	h := projectHarness(t)
	const u = "d/a"
	net := func(name string) string { return id(h.first(h.call(u, "listNetworks", "name", name), "network")) }
	address := func(ip string) map[string]any {
		return h.first(h.call(u, "listPublicIpAddresses", "ipaddress", ip), "publicipaddress")
	}
	rule := func(ip, port string, extra ...string) answer {
		return h.call(u, "createLoadBalancerRule", append([]string{"publicipid", ip, "name", "n", "algorithm", "roundrobin", "publicport", port, "privateport", "1", "protocol", "tcp"}, extra...)...)
	}
	ip := id(address("203.0.113.8"))
	h.fails(rule(ip, "80"), 431, wire.CSGeneric, "is not associated with any network")
	h.fails(rule(ip, "80", "networkid", net("tier"), "openfirewall", "true"), 431, wire.CSGeneric, "Can't have openFirewall=true when IP address belongs to VPC")
	h.fails(rule(ip, "80", "networkid", net("own")), 431, wire.CSGeneric, "is not assigned to the network")
	h.broken(u, h.call(u, "associateIpAddress", "networkid", net("tier")), 431, "Can't assign ip to the network directly when network belongs to VPC")
	lb := h.done(u, rule(ip, "80", "networkid", net("tier")))["loadbalancer"].(map[string]any)
	require.Equal(t, net("tier"), address("203.0.113.8")["associatednetworkid"])
	second := h.done(u, rule(ip, "81", "networkid", net("tier2")))["loadbalancer"].(map[string]any)
	require.Equal(t, net("tier"), second["networkid"], "a networkid that differs is ignored")
	h.fails(h.call(u, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "80"), 431, wire.CSInvalidValue, "There is no new provider for IP 203.0.113.8 of service Firewall!")
	require.Empty(t, h.ok(h.call(u, "listFirewallRules", "ipaddressid", ip)).body)
	h.done(u, h.call(u, "deleteLoadBalancerRule", "id", id(second)))
	h.done(u, h.call(u, "deleteLoadBalancerRule", "id", id(lb)))
	require.NotContains(t, address("203.0.113.8"), "associatednetworkid")

	nat := h.first(h.call(u, "listPublicIpAddresses", "issourcenat", "true", "vpcid", address("203.0.113.8")["vpcid"].(string)), "publicipaddress")
	h.broken(u, h.call(u, "disassociateIpAddress", "id", id(nat)), 530, "used for source nat purposes")
	h.done(u, rule(id(nat), "80", "networkid", net("tier")))
	require.Equal(t, false, address(nat["ipaddress"].(string))["issourcenat"], "the VPC has lost its source NAT")
	h.done(u, h.call(u, "disassociateIpAddress", "id", id(nat)))
	require.Len(t, h.ok(h.call(u, "listNetworkACLs", "networkid", net("tier"))).items("networkacl"), 2)
}
