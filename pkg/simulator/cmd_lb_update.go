// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"strings"
	"time"
)

func updateLoadBalancerRule(c *call) (*jobSpec, error) {
	refused := func(r *lbRule) string { return "Failed to update load balancer rule: " + r.text() }
	return c.lbJob("id", refused, func(r *lbRule, _ time.Time) (any, error) { return c.changeLBRule(r) })
}

// changeLBRule is the job of updateLoadBalancerRule.
func (c *call) changeLBRule(r *lbRule) (any, error) {
	if !c.access(r.owner()) {
		return nil, denied()
	}
	if r.removed {
		return nil, invalid("Unable to find load balancer rule %s", r.uuid)
	}
	cidrs := c.list("cidrlist")
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(s); err != nil || !p.Addr().Is4() {
			return nil, invalid("Invalid CIDR list: %s", c.str("cidrlist"))
		}
	}
	protocol, hasProtocol := c.args["protocol"]
	protocol = strings.ToLower(strings.TrimSpace(protocol))
	next := r.protocol
	if hasProtocol {
		if err := c.checkLBProtocol(protocol); err != nil {
			return nil, err
		}
		next = protocol
	}
	if !r.routable(next) { // one that was made while there was no router
		return nil, invalid("Modifications in lb rule %s are not supported.", r.text())
	}
	if !c.has("name") && !c.has("description") && !c.has("algorithm") && !hasProtocol && !c.has("cidrlist") && !c.has("fordisplay") && !c.has("customid") {
		return nil, errf(codeInternal, csRuntime, "Failed to update load balancer rule: %s", r.text())
	}
	reapply := r.algorithm != c.str("algorithm") || (r.hasProtocol || hasProtocol) && r.protocol != protocol || c.has("cidrlist") && r.cidrs != strings.Join(cidrs, ",")
	if c.has("name") {
		r.name = c.str("name")
	}
	if c.has("description") {
		r.description = c.str("description")
	}
	if c.has("algorithm") {
		r.algorithm = c.str("algorithm") // stored without a check, as on the real server
	}
	if hasProtocol {
		r.protocol, r.hasProtocol = protocol, true
	}
	if c.has("cidrlist") {
		r.cidrs, r.hasCIDRs = strings.Join(cidrs, ","), true // create stores blanks, update commas
	}
	setDisplay(c, c.st.lbRules, r, &r.hidden)
	if r.protocol != "ssl" {
		r.cert = nil
	}
	if r.internal {
		// A null pointer in the server: the answer is built from a public address. The change is stored all the same.
		r.settle()
		return nil, &apiError{status: codeInternal, cs: csRuntime, noText: true}
	}
	if !reapply {
		return lbAnswer{c.viewLB(r)}, nil
	}
	if !r.hasProtocol {
		// A null pointer in the server once the configuration is applied; the change is stored all the same.
		r.settle()
		return nil, &apiError{status: codeInternal, cs: csRuntime, noText: true}
	}
	r.state = ruleAdd
	ans := lbAnswer{c.viewLB(r)}
	r.settle()
	return ans, nil
}

// settle gives a rule the state that follows from its members.
func (r *lbRule) settle() {
	r.state = ruleAdd
	if len(r.members) > 0 {
		r.state = ruleActive
	}
}
