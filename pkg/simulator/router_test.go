// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRouterOfVPC: ACLs apply to an internal balancer, but not to a public one.
func TestRouterOfVPC(t *testing.T) {
	t.Parallel()
	h := startScript(t, "router", Options{})
	h.set("net", h.netID("inner")).play(`
		a createLoadBalancerRule publicipid={ips:203.0.113.9} networkid={networks:tier} name=p algorithm=RoundRobin publicport=80 privateport=30080 \
			cidrlist=192.0.2.0/24,198.51.100.7 > public
		a createLoadBalancer networkid={net} sourceipaddressnetworkid={net} name=i algorithm=source sourceport=80 instanceport=30080 \
			scheme=Internal sourceipaddress=10.2.2.200 > internal
	`)
	require.Empty(t, h.sim.Router().Rules, "rules without members are on no router")
	h.play(`
		a assignToLoadBalancerRule id={public} virtualmachineids={vms:tier-1}
		a assignToLoadBalancerRule id={internal} virtualmachineids={vms:inner-1}
	`)

	rules := h.sim.Router().Rules
	require.Len(t, rules, 2)
	require.Equal(t, RouterRule{
		ID:          h.vars["public"],
		Name:        "p",
		Address:     netip.MustParseAddr("203.0.113.9"),
		Port:        80,
		PrivatePort: 30080,
		Algorithm:   "roundrobin",
		CIDRList:    "192.0.2.0/24 198.51.100.7",
		Members:     []RouterMember{{VM: "tier-1", Address: netip.MustParseAddr("10.2.1.11"), Running: true}},
	}, rules[0])
	some := func(s ...string) []netip.Prefix { return prefixes(s) }
	require.True(t, rules[1].Internal)
	require.Equal(t, netip.MustParseAddr("10.2.2.200"), rules[1].Address)
	require.True(t, rules[1].Filtered)
	require.Equal(t, []RouterFilter{
		{Allow: true, Sources: some("10.2.2.0/24")}, {Allow: false, Sources: some("192.0.2.1/32")},
		{Allow: true, Sources: some("192.0.2.0/24"), From: 80, To: 90},
	}, rules[1].Filter)
}

// TestRouterAndStickiness: a policy takes effect when its job has ended; until then the older one stays in effect.
func TestRouterAndStickiness(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.set("rule", h.sim.Router().Rules[0].ID).play(`
		let create k8s-owner createLBStickinessPolicy lbruleid={rule} name=s methodname=SourceBased param[0].name=expire
		create param[0].value=5m`)
	require.Equal(t, &RouterSticky{Method: "SourceBased", Params: map[string]string{"expire": "5m"}},
		h.sim.Router().Rules[0].Sticky)
	h.play(`
		fault createLBStickinessPolicy:job-never-ends
		& create param[0].value=6m`)
	require.Equal(t, "5m", h.sim.Router().Rules[0].Sticky.Params["expire"])
}

// manyRanges returns a cidrlist of n source ranges.
func manyRanges(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("192.0.%d.0/24", i)
	}
	return strings.Join(out, ",")
}

// TestOldReleaseTellsRouterOfAlgorithmsOnly: before 4.22, lists show a changed protocol, but the change takes
// effect only when the router is updated for another reason.
func TestOldReleaseTellsRouterOfAlgorithmsOnly(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"4.19.3": "tcp", "4.22": "tcp-proxy"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			h := releaseEnv(t, version)
			inForce := func() string {
				for _, r := range h.sim.Router().Rules {
					if r.ID == h.vars["rule"] {
						return r.Protocol
					}
				}
				return "none"
			}

			h.play(`d/a assignToLoadBalancerRule id={rule} virtualmachineids={vms:own-1}`)
			require.Equal(t, "tcp", inForce())
			h.play(`d/a updateLoadBalancerRule id={rule} protocol=tcp-proxy
				d/a listLoadBalancerRules id={rule} => protocol=tcp-proxy`)
			require.Equal(t, want, inForce())
			h.play(`d/a updateLoadBalancerRule id={rule} algorithm=leastconn`)
			require.Equal(t, "tcp-proxy", inForce())
		})
	}
}

// TestLostRulesReturnWithCleanUp: lists still show rules that the router has lost; a restart with clean-up brings the
// rules back.
func TestLostRulesReturnWithCleanUp(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.set("net", h.network(), "rule", h.sim.Router().Rules[0].ID).play(`
		fault updateLoadBalancerRule:router-loses:count=1
		k8s-owner updateLoadBalancerRule id={rule} protocol=tcp
		k8s-owner restartNetwork id={net} cleanup=false
		k8s-owner listLoadBalancerRules => count 2`)
	require.Len(t, h.sim.Router().Rules, 1)
	h.play("k8s-owner restartNetwork id={net} cleanup=true")
	require.Len(t, h.sim.Router().Rules, 2)
}
