// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"net/netip"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func updateLoadBalancerRule(c *wire.Call) (*wire.JobSpec, error) {
	refused := func(r *store.LBRule) string { return "Failed to update load balancer rule: " + r.Text() }
	return lbJob(c, "id", refused,
		func(r *store.LBRule, _ time.Time) (any, error) { return changeLBRule(c, r, refused) })
}

// changeLBRule is the job of updateLoadBalancerRule.
func changeLBRule(c *wire.Call, r *store.LBRule, refused func(*store.LBRule) string) (any, error) {
	if !c.Access(r.Owner()) {
		return nil, wire.Denied()
	}

	if r.Removed {
		return nil, wire.Invalid("Unable to find load balancer rule %s", r.UUID)
	}

	cidrs := c.List("cidrlist")
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(s); err != nil || !p.Addr().Is4() {
			return nil, wire.Invalid("Invalid CIDR list: %s", c.Str("cidrlist"))
		}
	}

	protocol, hasProtocol := c.Args["protocol"]
	protocol = strings.ToLower(strings.TrimSpace(protocol))
	next := r.Protocol
	if hasProtocol {
		if err := checkLBProtocol(c, protocol); err != nil {
			return nil, err
		}
		next = protocol
	}

	if !routable(r, next) { // the rule was created before the router
		return nil, wire.Invalid("Modifications in lb rule %s are not supported.", r.Text())
	}

	if !c.Has("name") &&
		!c.Has("description") &&
		!c.Has("algorithm") &&
		!hasProtocol &&
		!c.Has("cidrlist") &&
		!c.Has("fordisplay") &&
		!c.Has("customid") {
		return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to update load balancer rule: %s", r.Text())
	}

	reapply := r.Algorithm != c.Str("algorithm") ||
		(r.HasProtocol || hasProtocol) && r.Protocol != protocol ||
		c.Has("cidrlist") && r.CIDRs != strings.Join(cidrs, ",")

	// Releases before 4.22 send only a changed algorithm to the router (seen with 4.19.3).
	if c.API.Param("cidrlist") == nil {
		reapply = c.Has("algorithm") && r.Algorithm != c.Str("algorithm")
	}

	if c.Has("name") {
		r.Name = c.Str("name")
	}

	if c.Has("description") {
		r.Description = c.Str("description")
	}

	if c.Has("algorithm") {
		r.Algorithm = c.Str("algorithm") // stored unchecked, as in CloudStack
	}

	if hasProtocol {
		if !reapply && r.RouterProtocol == "" && protocol != r.Protocol && r.State == store.RuleActive {
			r.RouterProtocol = r.Protocol
		}
		r.Protocol, r.HasProtocol = protocol, true
	}

	if c.Has("cidrlist") {
		// createLoadBalancerRule stores spaces, updateLoadBalancerRule stores commas.
		r.CIDRs, r.HasCIDRs = strings.Join(cidrs, ","), true
	}

	wire.SetDisplay(c, c.St.LBRules, r, &r.Hidden)
	if r.Protocol != "ssl" {
		r.Cert = nil
	}

	if r.Internal {
		// CloudStack fails with a null pointer when it renders the public address, but stores the change.
		settle(r)
		return nil, &wire.Error{Status: wire.CodeInternal, CS: wire.CSRuntime, NoText: true}
	}

	if !reapply {
		return wire.Object("loadbalancer", viewLB(c, r)), nil
	}

	if !r.HasProtocol {
		// CloudStack fails with a null pointer after it applied the configuration, but stores the change.
		settle(r)
		return nil, &wire.Error{Status: wire.CodeInternal, CS: wire.CSRuntime, NoText: true}
	}

	r.State = store.RuleAdd
	ans := wire.Object("loadbalancer", viewLB(c, r))

	// CloudStack keeps the change if the router refuses it.
	if err := apply(c, r, refused(r), func() {}); err != nil {
		return nil, err
	}

	return ans, nil
}

// settle sets the state that follows from the members.
func settle(r *store.LBRule) {
	r.State = store.RuleAdd
	if len(r.Members) > 0 {
		r.State = store.RuleActive
	}
}
