// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

const nowhere = "00000000-0000-4000-8000-000000000000"

// TestPagePair: page and pagesize are looked at after all parameters, and before the command looks at any of them.
func TestPagePair(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const noSize, noPage = `"pagesize" parameter is required when "page" is specified`, `"page" parameter is required when "pagesize" is specified`
	rule := h.rule("80", "protocol", "tcp")
	for command, pairs := range map[string][]string{
		"listVirtualMachines":           {"details", "bogus"},
		"listPublicIpAddresses":         {"state", "Free", "allocatedonly", "true"},
		"listNetworks":                  {"networkfilter", "bogus"},
		"listLoadBalancerRules":         {"account", "b", "projectid", h.first(h.call("d/a", "listProjects"), "project")["id"].(string)},
		"listLoadBalancerRuleInstances": {"id", rule},
		"listLBStickinessPolicies":      nil,
		"listTags":                      {"resourcetype", "bogus"},
	} {
		h.fails(h.call("d/a", command, append(pairs, "page", "1")...), 431, wire.CSGeneric, noSize)
		h.fails(h.call("d/a", command, append(pairs, "pagesize", "5")...), 431, wire.CSGeneric, noPage)
		require.NotContains(t, h.call("d/a", command, append(pairs, "pagesize", "-1")...).raw, noPage, command)
	}
	h.fails(h.call("d/a", "listVirtualMachines", "page", "1", "id", nowhere), 431, wire.CSGeneric, "Invalid parameter id value="+nowhere)
	h.fails(h.call("d/a", "listLoadBalancerRuleInstances", "page", "1"), 431, wire.CSGeneric, "due to missing parameter id")
	require.NotContains(t, h.call("d/a", "listCapabilities", "page", "1").raw, noSize, "no list")
}

// TestJavaFields: texts about lengths name the fields of the server's commands.
func TestJavaFields(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	long := strings.Repeat("x", 256)
	rule := h.rule("80", "protocol", "tcp")
	for field, call := range map[string][]string{
		"lbStickinessPolicyName": {"createLBStickinessPolicy", "lbruleid", rule, "methodname", "SourceBased", "name", long},
		"stickinessMethodName":   {"createLBStickinessPolicy", "lbruleid", rule, "name", "x", "methodname", long},
		"ipAddress":              {"associateIpAddress", "networkid", h.netID("own"), "ipaddress", long},
		"trafficType":            {"createNetworkACL", "networkid", h.netID("tier"), "protocol", "tcp", "traffictype", long},
		"loadBalancerName":       {"updateLoadBalancerRule", "id", rule, "name", long},
	} {
		h.fails(h.call("d/a", call[0], call[1:]...), 431, wire.CSGeneric, "Value greater than max allowed length 255 for param: "+field)
	}
	tier := []string{"networkid", h.netID("tier"), "protocol", "tcp", "startport", "80", "aclid", nowhere}
	h.fails(h.call("d/a", "createNetworkACL", append(tier, "startport", "x")...), 431, wire.CSGeneric, "due to invalid value x for parameter startport")
}

// TestElements: a comma too many is no element.
func TestElements(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	one := h.vmID("own-1")
	require.Len(t, h.ok(h.call("d/a", "listVirtualMachines", "ids", ","+one+",,"+h.vmID("own-2")+",")).items("virtualmachine"), 2)
	rule := h.rule("80", "protocol", "tcp", "cidrlist", "10.0.0.0/8,,192.0.2.0/24,")
	require.Equal(t, "10.0.0.0/8 192.0.2.0/24", h.first(h.call("d/a", "listLoadBalancerRules", "id", rule), "loadbalancerrule")["cidrlist"])
	h.done("d/a", h.call("d/a", "assignToLoadBalancerRule", "id", rule, "virtualmachineids", ","))
	require.Empty(t, h.members(rule), "nobody was named")
}

// TestMissingParametersInOrder: of several that are missing, the first of the server's command is named.
func TestMissingParametersInOrder(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	for command, first := range map[string]string{
		"createTags": "tags", "deleteTags": "resourcetype", "createLoadBalancerRule": "algorithm", "createFirewallRule": "ipaddressid",
		"addNicToVirtualMachine": "virtualmachineid", "removeNicFromVirtualMachine": "virtualmachineid", "updateDefaultNicForVirtualMachine": "virtualmachineid",
		"createVPC": "zoneid",
	} {
		h.fails(h.call("d/a", command), 431, wire.CSGeneric, "due to missing parameter "+first)
	}
}

// TestCapacityBeforeLimit: an address must be there before it is counted.
func TestCapacityBeforeLimit(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u, full = "d/a", "Insufficient address capacity"
	net := h.netID("own")
	taken := h.first(h.call(u, "listPublicIpAddresses"), "publicipaddress")["ipaddress"].(string)
	owner, ok := h.sim.st.Accounts.Find(func(a *store.Account) bool { return a.Name == "a" })
	require.True(t, ok)
	h.sim.mu.Lock()
	owner.Limits = map[string]int64{"publicIPs": 0}
	h.sim.mu.Unlock()
	associate := func(pairs ...string) answer {
		return h.call(u, "associateIpAddress", append([]string{"networkid", net}, pairs...)...)
	}
	h.fails(associate(), 532, wire.CSAccountLimit, "Maximum number of public IP addresses for account: a has been exceeded.")
	h.fails(associate("ipaddress", taken), 533, wire.CSGeneric, full)
	h.fails(associate("ipaddress", "192.0.2.1"), 533, wire.CSGeneric, full)
	h.fails(associate("ipaddress", "x"), 533, wire.CSGeneric, full)
	h.sim.Inject(Fault{Command: "associateIpAddress", Kind: FaultCapacity})
	h.fails(associate(), 533, wire.CSGeneric, full)
}

// TestOwnerOfAddress: the owner comes first, and an account counts with its domain only.
func TestOwnerOfAddress(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	d, _ := h.sim.st.Domains.Find(func(d *store.Domain) bool { return d.Name == "d" })
	root, _ := h.sim.st.Domains.Find(func(d *store.Domain) bool { return d.Parent == nil })
	own, zone := h.netID("own"), h.first(h.call("d/a", "listZones"), "zone")["id"].(string)
	owner := func(user string, pairs ...string) any {
		t.Helper()
		return h.done(user, h.call(user, "associateIpAddress", pairs...))["ipaddress"].(map[string]any)["account"]
	}
	require.Equal(t, "a", owner("root", "networkid", own, "account", "root"))
	require.Equal(t, "a", owner("d/da", "networkid", own, "account", "nobody"))
	require.Equal(t, "a", owner("d/a", "networkid", own, "account", "a", "domainid", d.UUID))
	require.Equal(t, "b", owner("root", "zoneid", zone, "account", "b", "domainid", d.UUID))
	for name, tc := range map[string]struct {
		user     string
		pairs    []string
		code, cs int
		text     string
	}{
		"another's account":      {"d/a", []string{"account", "b", "domainid", d.UUID}, 531, wire.CSPermission, "Can't create/list resources for account b in domain"},
		"another domain":         {"d/a", []string{"account", "a", "domainid", root.UUID}, 531, wire.CSPermission, "Can't create/list resources for account a in domain"},
		"an account that is not": {"root", []string{"zoneid", zone, "account", "x", "domainid", d.UUID}, 431, wire.CSInvalidValue, "Unable to find account x in domain"},
		"another's network":      {"d/b", []string{"networkid", own}, 531, wire.CSPermission, wire.NoAccessText},
		"nothing":                {"d/a", []string{"account", "a"}, 431, wire.CSInvalidValue, "Unable to figure out zone"},
		"many networks":          {"d/a", []string{"zoneid", zone}, 431, wire.CSInvalidValue, "Account has more than one isolated network in the zone"},
	} {
		t.Log(name)
		h.fails(h.call(tc.user, "associateIpAddress", tc.pairs...), tc.code, tc.cs, tc.text)
	}
}

// TestUpdateAsksTheRouter: a rule that was made before there was a router is refused with its next change.
func TestUpdateAsksTheRouter(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	n, ok := h.sim.st.Networks.Get(h.netID("own"))
	require.True(t, ok)
	h.sim.mu.Lock()
	n.State = store.NetAllocated
	h.sim.mu.Unlock()
	stats, udp, good := h.rule("8081", "protocol", "tcp"), h.rule("53", "protocol", "udp"), h.rule("80", "protocol", "tcp")
	h.sim.mu.Lock()
	n.State = store.NetImplemented
	h.sim.mu.Unlock()
	h.broken(u, h.call(u, "updateLoadBalancerRule", "id", stats, "name", "x"), 431, "Modifications in lb rule ")
	h.broken(u, h.call(u, "updateLoadBalancerRule", "id", udp, "name", "x"), 431, "are not supported.")
	h.broken(u, h.call(u, "updateLoadBalancerRule", "id", good, "protocol", "udp"), 431, "are not supported.")
	h.broken(u, h.call(u, "updateLoadBalancerRule", "id", good, "protocol", "sctp"), 431, "protocol sctp is not in valid protocols [tcp, udp, tcp-proxy, ssl]")
	h.done(u, h.call(u, "updateLoadBalancerRule", "id", udp, "protocol", "tcp"))

	old := releaseHarness(t, "4.21.0")
	rule := old.rule("80", "protocol", "tcp")
	old.broken(u, old.call(u, "updateLoadBalancerRule", "id", rule, "protocol", "ssl"), 431, "protocol ssl is not in valid protocols [tcp, udp, tcp-proxy]")
}
