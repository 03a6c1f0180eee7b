// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"strings"
)

// setCert puts a certificate into the state that the caller uploaded by a call that is not recorded.
func (r *replayer) setCert(id string, c *goldenCase) {
	if named := c.Params["certid"] == id || strings.HasSuffix(c.Command, "SslCert") && c.Params["id"] == id; !named {
		return
	}
	owner := r.user(strings.TrimPrefix(goldenUsers[c.Caller], "k8s/")).account
	r.h.sim.st.certs.add(&sslCert{entity: entity{uuid: id, created: r.h.clock.Now()}, owner: owner})
}

// adoptSource gives an internal load balancer the address that was drawn for it on the recorded server.
func (r *replayer) adoptSource(id string, c *goldenCase) {
	l, ok := r.h.sim.st.lbRules.get(id)
	if !ok || !l.internal {
		return
	}
	if v, ok := r.nearest(id, c.index, "loadbalancer"); ok {
		if a, err := netip.ParseAddr(v.str("sourceipaddress")); err == nil {
			l.ip.addr = a
		}
	}
}

// setPolicies leaves a rule the stickiness policies that a list shows.
func (r *replayer) setPolicies(c *goldenCase) {
	l, ok := r.h.sim.st.lbRules.get(param1(c, "lbruleid"))
	if !ok {
		return
	}
	var shown []string
	eachView(c, func(v view) { shown = append(shown, v.str("id")) })
	for _, p := range slices.Clone(l.policies) {
		if !slices.Contains(shown, p.uuid) {
			r.h.sim.st.dropPolicy(p)
		}
	}
}

// setUnseenRule makes a rule whose creation and description are not among the
// recordings, on a fresh address of the network that its members tell.
func (r *replayer) setUnseenRule(id string, c *goldenCase) {
	st := r.h.sim.st
	members := []string{"assignToLoadBalancerRule", "removeFromLoadBalancerRule", "listLoadBalancerRuleInstances", "deleteLoadBalancerRule"}
	if c.Params["id"] != id || c.HTTPStatus != 200 || !slices.Contains(members, c.Command) || st.known(id) {
		return
	}
	var n *network
	for _, o := range r.cases[c.index:] {
		if n != nil || o.Params["id"] != id {
			continue
		}
		if v, ok := st.vms.get(param1(o, "virtualmachineids")); ok && len(v.nics) == 1 {
			n = v.nics[0].network
		}
		if v, ok := st.vms.get(param1(o, "vmidipmap[0].vmid")); ok && len(v.nics) == 1 {
			n = v.nics[0].network
		}
	}
	if n == nil {
		return
	}
	ip := st.freeIP(n.zone)
	if ip == nil {
		return
	}
	st.takeIP(ip, n.owner, r.h.clock.Now())
	ip.state, ip.network = ipAllocated, n
	r.inserted[id] = true
	st.addLBRule(&lbRule{
		entity: entity{uuid: id, created: r.h.clock.Now()}, ip: ip, network: n, account: n.owner, state: ruleAdd, algorithm: "roundrobin",
		protocol: "tcp", hasProtocol: true, publicPort: 80, privatePort: 30080,
	})
}
