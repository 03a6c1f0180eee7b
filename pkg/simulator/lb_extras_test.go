// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

const lbWorld = `
zones: [{name: z, publicRanges: [203.0.113.1-203.0.113.30]}]
domains: [{path: ROOT/d}]
accounts:
  - {name: root, role: Root Admin, users: [{name: root}]}
  - {name: a, domain: d, users: [{name: a}]}
  - {name: b, domain: d, users: [{name: b}]}
  - {name: da, domain: d, role: Domain Admin, users: [{name: da}]}
projects: [{name: p, owner: a}]
vpcs: [{name: v, cidr: 10.2.0.0/16, account: a}]
networks:
  - {name: own, account: a, cidr: 10.1.1.0/24}
  - {name: other, account: a, cidr: 10.1.2.0/24}
  - {name: foreign, account: b, cidr: 10.1.3.0/24}
  - {name: proj, project: p, cidr: 10.1.4.0/24}
  - {name: tier, vpc: v, cidr: 10.2.1.0/24}
  - {name: inner, vpc: v, cidr: 10.2.2.0/24, offering: DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB}
virtualMachines:
  - {name: own-1, account: a, nics: [{network: own, ip: 10.1.1.11, secondary: [10.1.1.111]}]}
  - {name: own-2, account: a, nics: [{network: own, ip: 10.1.1.12}, {network: other, ip: 10.1.2.12}]}
  - {name: other-1, account: a, nics: [{network: other, ip: 10.1.2.11}]}
  - {name: inner-1, account: a, nics: [{network: inner, ip: 10.2.2.11}]}
  - {name: b-1, account: b, nics: [{network: foreign}]}
  - {name: p-1, project: p, nics: [{network: proj}]}
publicIPs:
  - {address: 203.0.113.8, network: own}
  - {address: 203.0.113.9, vpc: v}
  - {address: 203.0.113.10, network: foreign}
`

// lbHarness starts lbWorld with jobs that take a second.
func lbHarness(t *testing.T) *harness {
	t.Helper()
	w, err := LoadWorld(bytes.NewReader([]byte(lbWorld)))
	require.NoError(t, err)
	return start(t, Options{World: w, Latency: LatencyProfile{Job: time.Second}})
}

// vmID and netID find objects of the world by name.
func (h *harness) netID(name string) string {
	n, ok := h.sim.st.Networks.Find(func(n *store.Network) bool { return n.Name == name })
	require.True(h.t, ok, name)
	return n.UUID
}

func (h *harness) ipID(addr string) string {
	ip, ok := h.sim.st.IPs.Find(func(ip *store.PublicIP) bool { return ip.Addr.String() == addr })
	require.True(h.t, ok, addr)
	return ip.UUID
}

// rule makes a rule on 203.0.113.8 and returns its id; pairs are added to the call.
func (h *harness) rule(port string, pairs ...string) string {
	h.t.Helper()
	all := append([]string{
		"publicipid", h.ipID("203.0.113.8"), "name", "lb-" + port, "algorithm", "roundrobin", "publicport", port, "privateport", "30080",
		"openfirewall", "false",
	}, pairs...)
	return id(h.done("d/a", h.call("d/a", "createLoadBalancerRule", all...))["loadbalancer"].(map[string]any))
}

func (h *harness) ruleState(rule string) any {
	h.t.Helper()
	return h.first(h.call("d/a", "listLoadBalancerRules", "id", rule), "loadbalancerrule")["state"]
}

func TestStickiness(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	rule := h.rule("80", "protocol", "tcp")
	h.done(u, h.call(u, "assignToLoadBalancerRule", "id", rule, "virtualmachineids", h.vmID("own-1")))
	policies := func(pairs ...string) []any {
		t.Helper()
		return h.first(h.call(u, "listLBStickinessPolicies", pairs...), "stickinesspolicies")["stickinesspolicy"].([]any)
	}
	require.Empty(t, policies("lbruleid", rule))

	a := h.ok(h.call(u, "createLBStickinessPolicy", "lbruleid", rule, "name", "s1", "methodname", "sourcebased", "description", "d",
		"param[0].name", "expire", "param[0].value", "30m"))
	require.Equal(t, "createLBStickinessPolicy", a.key)
	first := a.str("id")
	got := h.done(u, a)["stickinesspolicies"].(map[string]any)
	require.Equal(t, rule, got["lbruleid"])
	require.Equal(t, "a", got["account"])
	require.NotContains(t, got, "domainpath")
	p := got["stickinesspolicy"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{
		"id": first, "name": "s1", "description": "d", "methodname": "sourcebased", "params": map[string]any{"expire": "30m"},
	}, p)
	require.Equal(t, store.RuleActive, h.ruleState(rule))

	// A second one takes the first one's place when its job ends, a third cannot come before that.
	b := h.ok(h.call(u, "createLBStickinessPolicy", "lbruleid", rule, "name", "s2", "methodname", "LbCookie", "param[0].name", "nocache"))
	require.Len(t, policies("lbruleid", rule), 2)
	h.fails(h.call(u, "createLBStickinessPolicy", "lbruleid", rule, "name", "s3", "methodname", "LbCookie"), 431, wire.CSInvalidValue, "Already two policies attached")
	h.done(u, b)
	left := policies("id", b.str("id"))
	require.Len(t, left, 1)
	require.Equal(t, map[string]any{"nocache": "null"}, left[0].(map[string]any)["params"])
	h.fails(h.call(u, "deleteLBStickinessPolicy", "id", first), 431, wire.CSGeneric, "entity does not exist")

	for name, tc := range map[string]struct {
		pairs []string
		text  string
	}{
		"method":    {[]string{"methodname", "Bogus"}, "Failed to match Stickiness method name for LB rule:"},
		"param":     {[]string{"methodname", "AppCookie", "param[0].name", "expire", "param[0].value", "1m"}, "Failed : Stickiness policy does not support param name :expire"},
		"no value":  {[]string{"methodname", "AppCookie", "param[0].name", "length"}, "Failed : Value expected for the Param :length"},
		"time":      {[]string{"methodname", "SourceBased", "param[0].name", "expire", "param[0].value", "30"}, "Cause: expire is not in timeformat: 30"},
		"size":      {[]string{"methodname", "SourceBased", "param[0].name", "TableSize", "param[0].value", "big"}, "Cause: tablesize is not in size format: big"},
		"length":    {[]string{"methodname", "AppCookie", "param[0].name", "length", "param[0].value", "x"}, "Cause: length is not a number: x"},
		"hold time": {[]string{"methodname", "AppCookie", "param[0].name", "holdtime", "param[0].value", "3y"}, "Cause: holdtime is not in timeformat: 3y"},
	} {
		h.fails(h.call(u, "createLBStickinessPolicy", append([]string{"lbruleid", rule, "name", name}, tc.pairs...)...), 431, wire.CSInvalidValue, tc.text)
	}
	h.fails(h.call("d/b", "createLBStickinessPolicy", "lbruleid", rule, "name", "n", "methodname", "LbCookie"), 531, wire.CSPermission, wire.NoAccessText)
	h.fails(h.call("d/b", "listLBStickinessPolicies", "lbruleid", rule), 531, wire.CSPermission, wire.NoAccessText)
	h.broken("d/b", h.call("d/b", "deleteLBStickinessPolicy", "id", b.str("id")), 530, wire.NoAccessText)
	h.fails(h.call(u, "listLBStickinessPolicies"), 431, wire.CSInvalidValue, "load balancer rule ID and stickiness policy ID can't be null")
	h.fails(h.call(u, "listLBStickinessPolicies", "lbruleid", h.rule("81"), "id", b.str("id")), 431, wire.CSInvalidValue, "stickiness policy ID doesn't belong to lbId")

	// Only root admins hide a policy or give it another id.
	h.done(u, h.call(u, "updateLBStickinessPolicy", "id", b.str("id"), "fordisplay", "false"))
	require.Len(t, policies("lbruleid", rule), 1)
	const custom = "11111111-2222-4333-8444-555555555555"
	h.done("root", h.call("root", "updateLBStickinessPolicy", "id", b.str("id"), "fordisplay", "false", "customid", custom))
	require.Empty(t, policies("lbruleid", rule))
	del := h.ok(h.call(u, "deleteLBStickinessPolicy", "id", custom))
	require.Equal(t, "deleteLBstickinessrruleresponse", del.key)
	h.done(u, del)

	// A policy goes with its rule.
	c := h.ok(h.call(u, "createLBStickinessPolicy", "lbruleid", rule, "name", "s4", "methodname", "SourceBased"))
	h.done(u, c)
	h.done(u, h.call(u, "deleteLoadBalancerRule", "id", rule))
	h.fails(h.call(u, "listLBStickinessPolicies", "id", c.str("id")), 431, wire.CSGeneric, "entity does not exist")
}

func TestStickinessRefusedByRouter(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	rule := h.rule("80")
	remove := h.sim.Inject(Fault{Command: "createLBStickinessPolicy", Kind: FaultJobFails})
	h.broken("d/a", h.call("d/a", "createLBStickinessPolicy", "lbruleid", rule, "name", "s", "methodname", "LbCookie"), 530, "Failed to create stickiness policy")
	remove()
	require.Empty(t, h.first(h.call("d/a", "listLBStickinessPolicies", "lbruleid", rule), "stickinesspolicies")["stickinesspolicy"])
}

func TestHealthChecksAreUnsupported(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	rule := h.rule("80")
	h.fails(h.call(u, "createLBHealthCheckPolicy", "lbruleid", rule), 430, wire.CSGeneric,
		"Failed to create HealthCheck policy: Validation Failed (HealthCheck Policy is not supported by LB Provider for the LB rule:LoadBalancer {")
	h.fails(h.call(u, "createLBHealthCheckPolicy", "lbruleid", rule, "responsetimeout", "9", "intervaltime", "5"), 430, wire.CSGeneric,
		"Monitor interval must be greater than response timeout")
	h.fails(h.call("d/b", "createLBHealthCheckPolicy", "lbruleid", rule), 531, wire.CSPermission, wire.NoAccessText)
	v := h.first(h.call(u, "listLBHealthCheckPolicies", "lbruleid", rule), "healthcheckpolicies")
	require.Equal(t, rule, v["lbruleid"])
	require.Empty(t, v["healthcheckpolicy"])
	h.fails(h.call(u, "listLBHealthCheckPolicies"), 431, wire.CSInvalidValue, "Either load balancer rule ID or health check policy ID should be specified")
	for _, cmd := range []string{"deleteLBHealthCheckPolicy", "updateLBHealthCheckPolicy"} {
		h.fails(h.call(u, cmd, "id", rule), 431, wire.CSGeneric, "entity does not exist")
	}
	h.broken(u, h.call(u, "deleteLBHealthCheckPolicy", "id", "7"), 431, "Invalid HealthCheck policy id value: 7")
	require.Empty(t, h.ok(h.call(u, "listAutoScaleVmGroups")).body)
}

func TestInternalLoadBalancer(t *testing.T) {
	t.Parallel()
	h := lbHarness(t)
	const u = "d/a"
	create := func(user string, pairs ...string) answer {
		args := map[string]string{
			"name": "ilb", "algorithm": "roundrobin", "sourceport": "80", "instanceport": "30080", "scheme": "internal",
			"networkid": h.netID("inner"), "sourceipaddressnetworkid": h.netID("inner"),
		}
		for i := 0; i < len(pairs); i += 2 {
			args[pairs[i]] = pairs[i+1]
		}
		var flat []string
		for k, v := range args {
			flat = append(flat, k, v)
		}
		return h.call(user, "createLoadBalancer", flat...)
	}
	lb := h.done(u, create(u))["loadbalancer"].(map[string]any)
	require.Equal(t, []any{map[string]any{"sourceport": 80.0, "instanceport": 30080.0, "state": store.RuleAdd}}, lb["loadbalancerrule"])
	require.Empty(t, lb["loadbalancerinstance"])
	again := h.done(u, create(u))["loadbalancer"].(map[string]any)
	require.NotEqual(t, lb["sourceipaddress"], again["sourceipaddress"], "the same ports take another address")
	second := h.done(u, create(u, "sourceport", "443", "sourceipaddress", lb["sourceipaddress"].(string), "name", "ilb-443"))["loadbalancer"].(map[string]any)
	require.Equal(t, lb["sourceipaddress"], second["sourceipaddress"])

	for name, tc := range map[string]struct {
		pairs []string
		code  int
		cs    int
		text  string
	}{
		"port taken":     {[]string{"sourceipaddress", lb["sourceipaddress"].(string)}, 537, wire.CSGeneric, "The range specified, 80-80, conflicts with rule "},
		"outside":        {[]string{"sourceipaddress", "10.9.9.9"}, 431, wire.CSInvalidValue, "The requested IP is not in the network's CIDR subnet."},
		"of a NIC":       {[]string{"sourceipaddress", "10.2.2.11"}, 533, wire.CSGeneric, "Unable to acquire IP address for network"},
		"gateway":        {[]string{"sourceipaddress", "10.2.2.1"}, 533, wire.CSGeneric, "Unable to acquire IP address for network"},
		"no address":     {[]string{"sourceipaddress", "10.2.x.9"}, 431, wire.CSGeneric, `For input string: "x"`},
		"scheme":         {[]string{"scheme", "Public"}, 431, wire.CSInvalidValue, "Invalid value for scheme. Supported value is internal"},
		"public tier":    {[]string{"networkid", h.netID("tier")}, 431, wire.CSInvalidValue, `Scheme Internal is not supported by the network offering NetworkOffering {"id":`},
		"foreign":        {[]string{"networkid", h.netID("foreign")}, 531, wire.CSPermission, wire.NoAccessText},
		"algorithm":      {[]string{"algorithm", "bogus"}, 431, wire.CSInvalidValue, "Invalid algorithm: bogus"},
		"source port":    {[]string{"sourceport", "70000"}, 431, wire.CSInvalidValue, "Invalid value for source port: 70000"},
		"instance port":  {[]string{"instanceport", "-1"}, 431, wire.CSInvalidValue, "Invalid value for instance port: -1"},
		"network id":     {[]string{"networkid", "nope"}, 431, wire.CSGeneric, "Invalid parameter networkid value=nope"},
		"source network": {[]string{"sourceipaddressnetworkid", ""}, 431, wire.CSInvalidValue, "Invalid value provided for API arg: sourceipaddressnetworkid"},
	} {
		t.Log(name)
		h.fails(create(u, tc.pairs...), tc.code, tc.cs, tc.text)
	}

	// Members come and go as on a public rule.
	h.done(u, h.call(u, "assignToLoadBalancerRule", "id", id(lb), "virtualmachineids", h.vmID("inner-1")))
	require.Len(t, h.call(u, "listLoadBalancerRuleInstances", "id", id(lb)).items("loadbalancerruleinstance"), 1)
	got := h.first(h.call(u, "listLoadBalancers", "id", id(lb)), "loadbalancer")
	require.Equal(t, store.RuleActive, got["loadbalancerrule"].([]any)[0].(map[string]any)["state"])
	member := got["loadbalancerinstance"].([]any)[0].(map[string]any)
	require.Equal(t, "10.2.2.11", member["ipaddress"])
	require.True(t, strings.HasPrefix(member["name"].(string), "i-"), "the hypervisor's name")
	h.broken(u, h.call(u, "assignToLoadBalancerRule", "id", id(lb), "virtualmachineids", h.vmID("own-1")), 530, "Failed to assign load balancer rule")
	j := h.job(u, h.call(u, "updateLoadBalancerRule", "id", id(lb), "name", "ilb")) // stored, but the answer cannot be built
	require.EqualValues(t, 530, j["jobresultcode"])
	require.NotContains(t, j["jobresult"], "errortext")
	require.Empty(t, h.ok(h.call(u, "listLoadBalancerRules", "id", id(lb))).body, "public rules only")

	h.done(u, h.call(u, "createTags", "resourceids", id(lb), "resourcetype", "LoadBalancer", "tags[0].key", "k", "tags[0].value", "v"))
	for name, tc := range map[string]struct {
		pairs []string
		n     int
	}{
		"all":             {nil, 3},
		"network":         {[]string{"networkid", h.netID("inner")}, 3},
		"other network":   {[]string{"networkid", h.netID("tier")}, 0},
		"address":         {[]string{"sourceipaddress", lb["sourceipaddress"].(string)}, 2},
		"name":            {[]string{"name", "ILB-443"}, 1},
		"keyword":         {[]string{"keyword", "lb-4"}, 1},
		"tag":             {[]string{"tags[0].key", "k", "tags[0].value", "v"}, 1},
		"scheme":          {[]string{"scheme", "INTERNAL"}, 3},
		"page":            {[]string{"page", "2", "pagesize", "2"}, 1},
		"project":         {[]string{"projectid", "-1"}, 0},
		"source network":  {[]string{"sourceipaddressnetworkid", h.netID("inner")}, 3},
		"and id of other": {[]string{"id", h.rule("80")}, 0},
	} {
		require.Len(t, h.ok(h.call(u, "listLoadBalancers", tc.pairs...)).items("loadbalancer"), tc.n, name)
	}
	require.Empty(t, h.call("root", "listLoadBalancers").items("loadbalancer"))
	require.Len(t, h.call("root", "listLoadBalancers", "listall", "true").items("loadbalancer"), 3)
	h.fails(h.call(u, "listLoadBalancers", "scheme", "public"), 431, wire.CSInvalidValue, "Invalid value for scheme")

	h.done("root", h.call("root", "updateLoadBalancer", "id", id(second), "fordisplay", "false"))
	require.Len(t, h.call(u, "listLoadBalancers").items("loadbalancer"), 2)
	h.broken("d/b", h.call("d/b", "deleteLoadBalancer", "id", id(lb)), 530, wire.NoAccessText)
	h.done(u, h.call(u, "deleteLoadBalancer", "id", id(lb)))
	h.fails(h.call(u, "deleteLoadBalancer", "id", id(lb)), 431, wire.CSGeneric, "entity does not exist")
	h.done(u, h.call(u, "deleteLoadBalancerRule", "id", id(again)))
	require.Len(t, rulesOnTier(h.sim.st, h.netID("inner")), 1)
}

// rulesOnTier lists the internal load balancers of a network.
func rulesOnTier(st *store.State, network string) []*store.LBRule {
	var out []*store.LBRule
	for _, r := range st.LBRules.Rows {
		if r.Internal && r.Network.UUID == network {
			out = append(out, r)
		}
	}
	return out
}
