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

const routerWorld = `
zones: [{name: z, publicRanges: [203.0.113.1-203.0.113.30]}]
accounts: [{name: a, users: [{name: a}]}]
vpcs: [{name: v, cidr: 10.2.0.0/16, account: a, aclLists: [{name: l, items: [
  {number: 3, action: Allow, protocol: tcp, startPort: 80, endPort: 90, cidrs: [192.0.2.0/24]},
  {number: 1, action: Deny, protocol: all, cidrs: [192.0.2.1/32]},
  {number: 2, action: Allow, protocol: tcp, startPort: 443, endPort: 443},
  {number: 4, action: Allow, protocol: all, trafficType: Egress}]}]}]
networks:
  - {name: tier, vpc: v, cidr: 10.2.1.0/24, acl: default_deny}
  - {name: inner, vpc: v, cidr: 10.2.2.0/24, acl: l, offering: DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB}
virtualMachines:
  - {name: tier-1, account: a, nics: [{network: tier, ip: 10.2.1.11}]}
  - {name: inner-1, account: a, nics: [{network: inner, ip: 10.2.2.11}]}
publicIPs: [{address: 203.0.113.9, vpc: v}]
`

// TestRouterOfVPC: ACLs lie before an internal balancer, and not before a public one.
func TestRouterOfVPC(t *testing.T) {
	t.Parallel()
	h := startYAML(t, routerWorld)
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
		ID: h.vars["public"], Name: "p", Address: netip.MustParseAddr("203.0.113.9"), Port: 80, PrivatePort: 30080, Algorithm: "roundrobin",
		CIDRList: "192.0.2.0/24 198.51.100.7",
		Members:  []RouterMember{{VM: "tier-1", Address: netip.MustParseAddr("10.2.1.11"), Running: true}},
	}, rules[0])
	some := func(s ...string) []netip.Prefix { return prefixes(s) }
	require.True(t, rules[1].Internal)
	require.Equal(t, netip.MustParseAddr("10.2.2.200"), rules[1].Address)
	require.True(t, rules[1].Filtered)
	require.Equal(t, []RouterFilter{
		{Allow: true, Sources: some("10.2.2.0/24")}, {Allow: false, Sources: some("192.0.2.1/32")}, {Allow: true, Sources: some("192.0.2.0/24"), From: 80, To: 90},
	}, rules[1].Filter)
}

// TestRouterAndStickiness: a policy is in force when its job has ended, and the older one until then.
func TestRouterAndStickiness(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	rule := h.sim.Router().Rules[0].ID
	create := func(expire string) answer {
		return h.call("k8s-owner", "createLBStickinessPolicy", "lbruleid", rule, "name", "s", "methodname", "SourceBased",
			"param[0].name", "expire", "param[0].value", expire)
	}
	h.done("k8s-owner", create("5m"))
	require.Equal(t, &RouterSticky{Method: "SourceBased", Params: map[string]string{"expire": "5m"}}, h.sim.Router().Rules[0].Sticky)
	h.sim.Inject(Fault{Command: "createLBStickinessPolicy", Kind: FaultJobNeverEnds})
	h.ok(create("6m"))
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

// TestTooManySourceRangesStopTheRouter: every change of a rule of the network fails until the long rule is shortened or
// deleted; other networks, names and firewall rules do not notice.
func TestTooManySourceRangesStopTheRouter(t *testing.T) {
	t.Parallel()
	h := startLB(t).set("most", manyRanges(RouterRanges)).set("more", manyRanges(RouterRanges+1))
	h.play(`
		d/a assignToLoadBalancerRule id={rule} virtualmachineids={vms:own-1}
		d/a createLoadBalancerRule publicipid={ip} name=long algorithm=source publicport=81 privateport=1 protocol=tcp cidrlist={most} > long
		d/a assignToLoadBalancerRule id={long} virtualmachineids={vms:own-1}
		d/a createLoadBalancerRule publicipid={ip} name=longer algorithm=source publicport=82 privateport=1 protocol=tcp cidrlist={more} > longer
		d/a assignToLoadBalancerRule id={rule} virtualmachineids={vms:own-2}  # a rule without members is on no router
		d/a assignToLoadBalancerRule id={longer} virtualmachineids={vms:own-1} => job 530 Failed to assign load balancer rule

		# Rules of the same network.
		d/a removeFromLoadBalancerRule id={rule} virtualmachineids={vms:own-2} => job 530 Failed to remove specified load balancer rule
		d/a listLoadBalancerRuleInstances id={rule} => count 2
		d/a createLoadBalancerRule publicipid={ip} name=new algorithm=source publicport=83 privateport=1 protocol=tcp > new
		d/a assignToLoadBalancerRule id={new} virtualmachineids={vms:own-1} => job 530 Failed to assign load balancer rule
		d/a listLoadBalancerRules id={new} => state=Add
		d/a updateLoadBalancerRule id={rule} algorithm=source protocol=tcp => job 530 Failed to update load balancer rule
		d/a updateLoadBalancerRule id={rule} name=renamed algorithm=source protocol=tcp
		d/a createLBStickinessPolicy lbruleid={rule} name=s methodname=LbCookie => job 530 Failed to create stickiness policy
		d/a deleteLoadBalancerRule id={long} => job 530 Unable to remove load balancer rule
		d/a createFirewallRule ipaddressid={ip} protocol=tcp startport=443

		# A rule of another network.
		d/b createLoadBalancerRule publicipid={ips:203.0.113.10} name=b algorithm=source publicport=80 privateport=1 protocol=tcp > b
		d/b assignToLoadBalancerRule id={b} virtualmachineids={vms:b-1}

		d/a updateLoadBalancerRule id={longer} algorithm=source protocol=tcp cidrlist=10.0.0.0/8
		d/a deleteLoadBalancerRule id={long}
		d/a updateLoadBalancerRule id={longer} algorithm=source protocol=tcp cidrlist={more} => job 530 Failed to update load balancer rule
		d/a deleteLoadBalancerRule id={new} => job 530 Unable to remove load balancer rule
		d/a deleteLoadBalancerRule id={longer}
		d/a deleteLoadBalancerRule id={new}
	`)
}

// TestTooManySourceRangesStopReleases: an address of another tier of the VPC stays in state Releasing.
func TestTooManySourceRangesStopReleases(t *testing.T) {
	t.Parallel()
	h := startYAML(t, routerWorld).set("more", manyRanges(RouterRanges+1))
	h.set("net", h.netID("inner")).play(`
		a createLoadBalancerRule publicipid={ips:203.0.113.9} networkid={networks:tier} name=p algorithm=source publicport=80 privateport=1 \
			protocol=tcp cidrlist={more} > long
		a assignToLoadBalancerRule id={long} virtualmachineids={vms:tier-1} => job 530 Failed to assign load balancer rule
		a associateIpAddress vpcid={vpcs:v} > other
		a createLoadBalancerRule publicipid={other} networkid={networks:tier} name=q algorithm=source publicport=80 privateport=1 protocol=tcp
		a disassociateIpAddress id={other} => job 530 Failed to disassociate ip address
		a listPublicIpAddresses allocatedonly=false state=Releasing => count 1
		a disassociateIpAddress id={ips:203.0.113.9}
		a disassociateIpAddress id={other}
	`)
}

// TestOldReleaseTellsRouterOfAlgorithmsOnly: before 4.22 a changed protocol is listed, but not in force until the router is
// told of something else.
func TestOldReleaseTellsRouterOfAlgorithmsOnly(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"4.19.3": "tcp", "4.22": "tcp-proxy"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			h := releaseEnv(t, version)
			rule := h.rule("80", "protocol", "tcp")
			inForce := func() string {
				for _, r := range h.sim.Router().Rules {
					if r.ID == rule {
						return r.Protocol
					}
				}
				return "none"
			}
			h.done("d/a", h.call("d/a", "assignToLoadBalancerRule", "id", rule, "virtualmachineids", h.vmID("own-1")))
			require.Equal(t, "tcp", inForce())
			h.done("d/a", h.call("d/a", "updateLoadBalancerRule", "id", rule, "protocol", "tcp-proxy"))
			require.Equal(t, "tcp-proxy", h.first(h.call("d/a", "listLoadBalancerRules", "id", rule), "loadbalancerrule")["protocol"])
			require.Equal(t, want, inForce())
			h.done("d/a", h.call("d/a", "updateLoadBalancerRule", "id", rule, "algorithm", "leastconn"))
			require.Equal(t, "tcp-proxy", inForce())
		})
	}
}
