// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// members lists the addresses of a rule's members.
func (h *harness) members(rule string) map[string]any {
	h.t.Helper()
	out := map[string]any{}
	for _, m := range h.ok(h.call("d/a", "listLoadBalancerRuleInstances", "id", rule, "lbvmips", "true")).items("lbrulevmidip") {
		out[m["loadbalancerruleinstance"].(map[string]any)["name"].(string)] = m["lbvmipaddresses"]
	}
	return out
}

func TestMembers(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u, failed = "d/a", "Failed to assign load balancer rule"
	rule := h.rule("80", "protocol", "tcp")
	one, two := h.vmID("own-1"), h.vmID("own-2")
	assign := func(pairs ...string) answer {
		return h.call(u, "assignToLoadBalancerRule", append([]string{"id", rule}, pairs...)...)
	}
	remove := func(pairs ...string) answer {
		return h.call(u, "removeFromLoadBalancerRule", append([]string{"id", rule}, pairs...)...)
	}
	mapOf := func(vm, ip string) []string { return []string{"vmidipmap[0].vmid", vm, "vmidipmap[0].vmip", ip} }

	h.done(u, assign("virtualmachineids", ""))
	require.Equal(t, store.RuleAdd, h.ruleState(rule), "nobody was named")
	for name, tc := range map[string]struct {
		pairs []string
		code  int
		text  string
	}{
		"nobody":            {nil, 530, failed},
		"other network":     {[]string{"virtualmachineids", h.vmID("other-1")}, 530, failed},
		"one good, one bad": {[]string{"virtualmachineids", one + "," + h.vmID("other-1")}, 530, failed},
		"foreign":           {[]string{"virtualmachineids", h.vmID("b-1")}, 530, failed},
		"of a project":      {[]string{"virtualmachineids", h.vmID("p-1")}, 530, failed},
		"other NIC":         {mapOf(two, "10.1.2.12"), 530, failed},
		"other VM's":        {mapOf(two, "10.1.1.11"), 530, failed},
		"no address":        {mapOf(two, "x"), 431, "Invalid ip address x passed in vmidipmap for vmid " + two},
		"address missing":   {[]string{"vmidipmap[0].vmid", two}, 431, "Invalid ip address null passed in vmidipmap for vmid " + two},
		"unknown in map":    {mapOf("nope", "10.1.1.11"), 431, "Unable to find virtual machine ID: nope"},
	} {
		t.Log(name)
		h.broken(u, assign(tc.pairs...), tc.code, tc.text)
		require.Empty(t, h.members(rule), name)
	}
	h.broken("d/b", h.call("d/b", "assignToLoadBalancerRule", "id", rule, "virtualmachineids", one), 530, failed)
	h.fails(assign("virtualmachineids", "00000000-0000-4000-8000-000000000000"), 431, wire.CSGeneric, "Invalid parameter virtualmachineids")

	// By id the NIC of the rule's network counts; named twice is named once.
	h.done(u, assign("virtualmachineids", two+","+two))
	require.Equal(t, map[string]any{"own-2": []any{"10.1.1.12"}}, h.members(rule))
	require.Equal(t, store.RuleActive, h.ruleState(rule))
	h.broken(u, assign("virtualmachineids", two), 530, failed)
	// In both ways a VM gets both addresses, and only the named ones are looked up first.
	h.done(u, assign(append(mapOf(one, "10.1.1.111"), "virtualmachineids", one)...))
	require.Equal(t, []any{"10.1.1.111", "10.1.1.11"}, h.members(rule)["own-1"])
	h.done(u, remove(mapOf(one, "10.1.1.111")...))
	require.Equal(t, []any{"10.1.1.11"}, h.members(rule)["own-1"])
	h.broken(u, assign(append(mapOf(one, "10.1.1.111"), "virtualmachineids", one)...), 530, "Entity already exists ")
	h.done(u, assign(mapOf(one, "10.1.1.111")...))

	h.broken(u, remove(), 431, "Failed to remove instance from load balancer rule")
	h.broken(u, remove(mapOf(two, "10.1.1.99")...), 431, "Failed to remove instance from load balancer rule")
	h.done(u, remove("virtualmachineids", h.vmID("b-1")))
	h.done(u, remove(append(mapOf(one, "10.1.1.111"), "virtualmachineids", one)...))
	require.Equal(t, []any{"10.1.1.11"}, h.members(rule)["own-1"], "the map narrows what goes")
	h.done(u, remove("virtualmachineids", one+","+two))
	require.Equal(t, store.RuleAdd, h.ruleState(rule), "the last one is gone")

	require.Empty(t, h.ok(h.call(u, "listLoadBalancerRuleInstances", "id", rule, "applied", "false")).body)
	h.fails(h.call(u, "listLoadBalancerRuleInstances", "id", rule, "page", "1"), 431, wire.CSGeneric, `"pagesize" parameter is required`)
	h.fails(h.call("d/b", "listLoadBalancerRuleInstances", "id", rule), 531, wire.CSPermission, wire.NoAccessText)
}

// TestRacingAssigns: jobs on one rule run side by side.
func TestRacingAssigns(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	rule := h.rule("80", "protocol", "tcp")
	assign := func(vm string) answer {
		return h.call(u, "assignToLoadBalancerRule", "id", rule, "virtualmachineids", h.vmID(vm))
	}
	first, same, third, other := assign("own-1"), h.ok(assign("own-1")), h.ok(assign("own-1")), h.ok(assign("own-2"))
	require.Empty(t, h.members(rule), "not before the jobs end")
	h.done(u, first)
	h.broken(u, same, 530, "Failed to assign load balancer rule")
	h.broken(u, third, 530, "Entity already exists ")
	h.done(u, other)
	require.Len(t, h.members(rule), 2)
	h.broken(u, assign("own-1"), 530, "Failed to assign load balancer rule")
}

func TestRuleOfAnotherKind(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	ip := h.ipID("203.0.113.8")
	fw := id(h.done(u, h.call(u, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "22"))["firewallrule"].(map[string]any))
	for _, cmd := range []string{"updateLoadBalancerRule", "deleteLoadBalancerRule", "assignToLoadBalancerRule", "removeFromLoadBalancerRule"} {
		h.broken(u, h.call(u, cmd, "id", fw), 431, "Unable to find load balancer rule: ")
	}
	h.fails(h.call(u, "listLoadBalancerRuleInstances", "id", fw), 530, wire.CSRuntime, wire.InternalErrorText)
	require.Empty(t, h.ok(h.call(u, "listLoadBalancerRules", "id", fw)).body)
	require.Empty(t, h.ok(h.call(u, "listFirewallRules", "id", h.rule("80"))).body)
	h.fails(h.call(u, "createLBStickinessPolicy", "lbruleid", fw, "name", "n", "methodname", "LbCookie"), 431, wire.CSInvalidValue, "not present")
	require.Empty(t, h.ok(h.call(u, "listLBStickinessPolicies", "lbruleid", fw)).body)
}

func TestCreateRuleSource(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	create := func(pairs ...string) answer {
		return h.call(u, "createLoadBalancerRule", append([]string{"name", "n", "algorithm", "source", "privateport", "30080"}, pairs...)...)
	}
	domain := h.sim.st.Domains.Rows[1].UUID
	for name, tc := range map[string]struct {
		pairs []string
		code  int
		cs    int
		text  string
	}{
		"no owner":    {[]string{"publicport", "80"}, 431, wire.CSInvalidValue, "Can't define IP owner. Either specify account/domainId or publicIpId"},
		"no address":  {[]string{"publicport", "80", "account", "a", "domainid", domain}, 431, wire.CSGeneric, "Unable to create load balance rule; can't find/allocate source IP"},
		"foreign":     {[]string{"publicport", "80", "publicipid", h.ipID("203.0.113.10")}, 531, wire.CSPermission, wire.NoAccessText},
		"free":        {[]string{"publicport", "80", "publicipid", h.ipID("203.0.113.29")}, 431, wire.CSInvalidValue, "invalid IP address ID"},
		"no tier":     {[]string{"publicport", "80", "publicipid", h.ipID("203.0.113.9")}, 431, wire.CSGeneric, "is not associated with any network"},
		"zone's":      {[]string{"publicport", "80", "publicipid", h.ipID("203.0.113.9"), "zoneid", h.sim.st.Zones.Rows[0].UUID}, 431, wire.CSGeneric, "Account has more than one isolated network in the zone"},
		"not the VPC": {[]string{"publicport", "80", "publicipid", h.ipID("203.0.113.9"), "networkid", h.netID("own")}, 431, wire.CSGeneric, "is not assigned to the network"},
		"inner tier":  {[]string{"publicport", "80", "publicipid", h.ipID("203.0.113.9"), "networkid", h.netID("inner")}, 431, wire.CSGeneric, "Scheme Public is not supported by the network offering"},
	} {
		t.Log(name)
		h.fails(create(tc.pairs...), tc.code, tc.cs, tc.text)
	}
	ip := h.first(h.call(u, "listPublicIpAddresses", "id", h.ipID("203.0.113.9")), "publicipaddress")
	require.NotContains(t, ip, "associatednetworkid", "a refused rule leaves the address unbound")
	h.done(u, create("publicport", "80", "publicipid", id(ip), "networkid", h.netID("tier")))
	ip = h.first(h.call(u, "listPublicIpAddresses", "id", id(ip)), "publicipaddress")
	require.Equal(t, h.netID("tier"), ip["associatednetworkid"])
}

// TestOpenFirewall: the related rule is made with the load balancer rule, not by its job.
func TestOpenFirewall(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	ip := h.ipID("203.0.113.8")
	create := func(port string) answer {
		return h.call(u, "createLoadBalancerRule", "publicipid", ip, "name", "n", "algorithm", "source", "publicport", port, "privateport", "1", "protocol", "tcp")
	}
	firewall := func() []map[string]any {
		return h.ok(h.call(u, "listFirewallRules", "ipaddressid", ip)).items("firewallrule")
	}
	a := h.ok(create("80"))
	require.Equal(t, store.RuleAdd, firewall()[0]["state"])
	h.done(u, a)
	require.Equal(t, store.RuleActive, firewall()[0]["state"])

	h.done(u, h.call(u, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "90", "endport", "99"))
	h.fails(create("95"), 537, wire.CSGeneric, "The range specified, 95-95, conflicts with rule FirewallRule {")
	require.Empty(t, h.ok(h.call(u, "listLoadBalancerRules", "keyword", "95")).body)
	h.fails(create("80"), 537, wire.CSGeneric, "The range specified, 80-80, conflicts with rule FirewallRule {")
	require.Len(t, firewall(), 2)

	remove := h.sim.Inject(Fault{Command: "createLoadBalancerRule", Kind: FaultJobFails})
	h.broken(u, create("85"), 530, "Failed to create load balancer rule")
	remove()
	require.Len(t, firewall(), 2, "both rules are taken back")
	require.Len(t, h.call(u, "listLoadBalancerRules").items("loadbalancerrule"), 1)
}

func TestDeleteRule(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	rule := h.rule("80", "protocol", "tcp")
	h.broken("d/b", h.call("d/b", "deleteLoadBalancerRule", "id", rule), 530, wire.NoAccessText)
	require.Equal(t, store.RuleAdd, h.ruleState(rule))

	remove := h.sim.Inject(Fault{Command: "deleteLoadBalancerRule", Kind: FaultJobFails})
	a := h.ok(h.call(u, "deleteLoadBalancerRule", "id", rule))
	require.Equal(t, store.RuleRevoke, h.ruleState(rule), "while the job is pending")
	h.broken(u, a, 530, "Unable to remove load balancer rule LoadBalancer {")
	require.Equal(t, store.RuleAdd, h.ruleState(rule), "rolled back")
	remove()

	one, two := h.ok(h.call(u, "deleteLoadBalancerRule", "id", rule)), h.ok(h.call(u, "deleteLoadBalancerRule", "id", rule))
	h.fails(h.call(u, "createLBStickinessPolicy", "lbruleid", rule, "name", "n", "methodname", "LbCookie"), 431, wire.CSInvalidValue, "is in deleting state")
	next := h.rule("80") // a rule on its way out does not hold its port
	h.done(u, one)
	h.done(u, two)
	h.fails(h.call(u, "deleteLoadBalancerRule", "id", rule), 431, wire.CSGeneric, "entity does not exist")
	require.Equal(t, store.RuleAdd, h.ruleState(next))

	// The firewall keeps a rule in state Deleting when the router refuses; trying again helps.
	fw := id(h.done(u, h.call(u, "createFirewallRule", "ipaddressid", h.ipID("203.0.113.8"), "protocol", "udp", "startport", "53"))["firewallrule"].(map[string]any))
	remove = h.sim.Inject(Fault{Command: "deleteFirewallRule", Kind: FaultJobFails})
	h.broken(u, h.call(u, "deleteFirewallRule", "id", fw), 530, "Failed to delete firewall rule")
	remove()
	require.Equal(t, store.RuleRevoke, h.first(h.call(u, "listFirewallRules", "id", fw), "firewallrule")["state"])
	h.done(u, h.call(u, "deleteFirewallRule", "id", fw))
}

func TestAdminOnlyFields(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u, custom, custom2 = "d/a", "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-666666666666"
	rule := h.rule("80", "protocol", "tcp", "fordisplay", "false")
	require.NotContains(t, h.first(h.call(u, "listLoadBalancerRules", "id", rule), "loadbalancerrule"), "fordisplay", "dropped for users")
	h.done("root", h.call("root", "updateLoadBalancerRule", "id", rule, "protocol", "tcp", "fordisplay", "false", "customid", custom))
	require.Empty(t, h.ok(h.call(u, "listLoadBalancerRules", "id", custom)).body)
	require.Equal(t, false, h.first(h.call("root", "listLoadBalancerRules", "id", custom), "loadbalancerrule")["fordisplay"])
	fw := id(h.done(u, h.call(u, "createFirewallRule", "ipaddressid", h.ipID("203.0.113.8"), "protocol", "tcp", "startport", "80"))["firewallrule"].(map[string]any))
	h.broken("root", h.call("root", "updateFirewallRule", "id", fw, "customid", "x"), 431, "UUID: x doesn't follow the UUID format")
	h.broken("root", h.call("root", "updateFirewallRule", "id", fw, "customid", custom), 431, "already exists so can't create/update with custom id")
	got := h.done("root", h.call("root", "updateFirewallRule", "id", fw, "fordisplay", "false", "customid", custom2))["firewallrule"].(map[string]any)
	require.Equal(t, custom2, got["id"])
	require.Empty(t, h.ok(h.call(u, "listFirewallRules", "id", custom2)).body)
	h.broken("d/b", h.call("d/b", "updateFirewallRule", "id", custom2), 530, wire.NoAccessText)
	h.broken("root", h.call("root", "updateFirewallRule", "id", custom), 431, "having purpose Firewall")
}

func TestTagKinds(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	create := func(user, typ, ids string, pairs ...string) answer {
		return h.call(user, "createTags", append([]string{"resourcetype", typ, "resourceids", ids}, pairs...)...)
	}
	st := h.sim.st
	account, ok := st.AccountIn(st.Domains.Rows[1], "a")
	require.True(t, ok)
	for typ, id := range map[string]string{
		"UserVm": h.vmID("own-1"), "LoadBalancer": h.rule("80"), "PublicIpAddress": h.ipID("203.0.113.8"), "Network": h.netID("own"),
		"Vpc": st.VPCs.Rows[0].UUID, "Project": st.Projects.Rows[0].UUID, "account": account.UUID, "USER": account.Users[0].UUID,
	} {
		h.done(u, create(u, typ, id, "tags[0].key", "k", "tags[0].value", typ, "tags[1].key", "k2", "tags[1].value", "v", "customer", "c"))
		list := h.ok(h.call(u, "listTags", "resourcetype", typ, "resourceid", id, "key", "K", "projectid", "-1", "listall", "true")).items("tag")
		require.Len(t, list, 1, typ)
		require.Equal(t, typ, list[0]["value"])
		require.Equal(t, "c", list[0]["customer"])
	}
	all := h.ok(h.call(u, "listTags", "key", "k")).items("tag")
	require.Equal(t, "Vpc", all[0]["resourcetype"], "descending by type")
	require.Equal(t, "Account", all[len(all)-1]["resourcetype"])
	for name, tc := range map[string]struct {
		a    answer
		code int
		text string
	}{
		"no such type": {create(u, "Bogus", "x", "tags[0].key", "k", "tags[0].value", "v"), 431, "Invalid resource type Bogus"},
		"untaggable":   {create(u, "zone", "x", "tags[0].key", "k", "tags[0].value", "v"), 431, "The resource type zone doesn't support resource tags"},
		"unknown":      {create(u, "Volume", "x", "tags[0].key", "k", "tags[0].value", "v"), 431, "Unable to find resource by uuid x and type Volume"},
		"taken":        {create(u, "UserVm", h.vmID("own-1"), "tags[0].key", "n", "tags[0].value", "v", "tags[1].key", "K2", "tags[1].value", "v"), 530, "tag K2 already on UserVm with id"},
		"no value":     {create(u, "UserVm", h.vmID("own-1"), "tags[0].key", "n"), 431, "No value is passed in for key n"},
		"twice":        {create(u, "UserVm", h.vmID("own-2")+","+h.vmID("own-2"), "tags[0].key", "n", "tags[0].value", "v"), 530, "tag n already on UserVm with id"},
		"foreign":      {create("d/b", "UserVm", h.vmID("own-1"), "tags[0].key", "z", "tags[0].value", "v"), 530, wire.NoAccessText},
	} {
		t.Log(name)
		user := u
		if name == "foreign" {
			user = "d/b"
		}
		h.broken(user, tc.a, tc.code, tc.text)
	}
	require.Len(t, h.ok(h.call(u, "listTags", "resourceid", h.vmID("own-1"))).items("tag"), 2, "nothing of a refused call stays")
	h.done(u, create(u, "UserVm", h.vmID("own-2"), "tags[0].key", "n", "tags[0].value", "1", "tags[1].key", "n", "tags[1].value", "2"))
	require.Equal(t, "2", h.first(h.call(u, "listTags", "resourceid", h.vmID("own-2")), "tag")["value"], "the last value of a key counts")

	del := func(user string, pairs ...string) answer {
		return h.call(user, "deleteTags", append([]string{"resourcetype", "UserVm", "resourceids", h.vmID("own-1")}, pairs...)...)
	}
	h.broken("d/b", del("d/b"), 530, wire.NoAccessText)
	h.broken(u, del(u, "tags[0].key", "k", "tags[0].value", "other"), 530, "Failed to delete tags")
	h.broken(u, h.call(u, "deleteTags", "resourcetype", "UserVm", "resourceids", "nope"), 530, "Failed to delete tags")
	h.done(u, del(u, "tags[0].key", "K", "tags[0].value", "USERVM"))
	h.done(u, del(u))
	require.Empty(t, h.ok(h.call(u, "listTags", "resourceid", h.vmID("own-1"))).body)
	h.clock.Step(time.Minute)
}

func TestFirewallConflicts(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	ip := h.ipID("203.0.113.8")
	create := func(pairs ...string) answer {
		return h.call(u, "createFirewallRule", append([]string{"ipaddressid", ip}, pairs...)...)
	}
	for _, pairs := range [][]string{
		{"protocol", "tcp", "startport", "80", "endport", "90"}, {"protocol", "icmp", "icmptype", "8", "icmpcode", "0"}, {"protocol", "udp"},
		{"protocol", "udp", "startport", "80", "endport", "90"}, {"protocol", "icmp"}, {"protocol", "icmp", "icmptype", "8", "icmpcode", "0", "cidrlist", "10.0.0.0/8"},
		{"protocol", "udp", "cidrlist", "10.0.0.0/8"}, {"protocol", "tcp", "startport", "85", "cidrlist", "10.0.0.0/8"},
	} {
		h.done(u, create(pairs...))
	}
	for name, tc := range map[string]struct {
		pairs []string
		code  int
		cs    int
		text  string
	}{
		"overlap":   {[]string{"protocol", "TCP", "startport", "90", "endport", "99"}, 537, wire.CSRuleConflict, "The range specified, 90-99, conflicts with rule FirewallRule {"},
		"one CIDR":  {[]string{"protocol", "tcp", "startport", "85", "cidrlist", "10.0.0.0/8,1.1.1.0/24"}, 537, wire.CSRuleConflict, "The range specified, 85-85, conflicts"},
		"icmp":      {[]string{"protocol", "icmp", "icmptype", "8", "icmpcode", "0"}, 431, wire.CSInvalidValue, "New rule conflicts with existing rule"},
		"no ports":  {[]string{"protocol", "udp"}, 537, wire.CSRuleConflict, "There is already a firewall rule specified with protocol = udp and no ports"},
		"end port":  {[]string{"protocol", "tcp", "startport", "1", "endport", "70000"}, 431, wire.CSInvalidValue, "Public port range is an invalid value: 70000"},
		"port":      {[]string{"protocol", "tcp", "startport", "70000"}, 431, wire.CSInvalidValue, "publicPort is an invalid value: 70000"},
		"order":     {[]string{"protocol", "tcp", "startport", "9", "endport", "8"}, 431, wire.CSInvalidValue, "Start port can't be bigger than end port"},
		"protocol":  {[]string{"protocol", "sctp", "startport", "9"}, 431, wire.CSInvalidValue, "Protocol sctp is not supported in zone"},
		"icmp port": {[]string{"protocol", "icmp", "startport", "9"}, 431, wire.CSInvalidValue, "Can't specify start/end port when protocol is ICMP"},
		"icmp type": {[]string{"protocol", "tcp", "icmptype", "9"}, 431, wire.CSInvalidValue, "Can specify icmpCode and icmpType for ICMP protocol only"},
		"cidr":      {[]string{"protocol", "tcp", "startport", "1", "cidrlist", "10.0.0.1"}, 431, wire.CSGeneric, "Source CIDRs formatting error 10.0.0.1"},
	} {
		t.Log(name)
		h.fails(create(tc.pairs...), tc.code, tc.cs, tc.text)
	}
	h.broken(u, h.call(u, "deleteFirewallRule", "id", h.rule("80")), 431, "having purpose Firewall")
}
