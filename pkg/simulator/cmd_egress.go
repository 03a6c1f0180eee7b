// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

func listEgressFirewallRules(c *call) (any, error) {
	in, err := c.ownerScope(c.byID())
	if err != nil {
		return nil, err
	}
	var out []*fwRule
	for _, r := range slices.Backward(c.st.egress.rows) {
		if in(r.account) && matches(c, "id", r) && matches(c, "networkid", r.network) && !c.given("ipaddressid") &&
			r.hasTags(c.tagFilter()) && c.visible("fordisplay", r.hidden) {
			out = append(out, r)
		}
	}
	return page(c, "firewallrule", out, c.viewFW)
}

func createEgressFirewallRule(c *call) (*jobSpec, error) {
	n := arg[*network](c, "networkid")
	if n == nil || n.removed {
		return nil, invalid("Invalid networkId is given")
	}
	r := &fwRule{
		entity: entity{created: c.now}, network: n, protocol: strings.ToLower(strings.TrimSpace(c.str("protocol"))), startPort: c.optInt("startport"),
		endPort: c.optInt("endport"), icmpType: c.optInt("icmptype"), icmpCode: c.optInt("icmpcode"), cidrs: c.list("cidrlist"), destCIDRs: c.list("destcidrlist"),
		state: ruleAdd, account: n.owner, hidden: c.has("fordisplay") && !c.boolean("fordisplay"), system: strings.EqualFold(c.str("type"), "system"),
	}
	if r.endPort == nil {
		r.endPort = r.startPort
	}
	if err := c.checkEgress(r); err != nil {
		return nil, err
	}
	c.st.egress.addWithID(r, c.st.ruleID())
	return &jobSpec{
		objectID: r.uuid, instanceType: "FirewallRule", instanceID: r.uuid,
		run: func(time.Time) (any, error) {
			if r.removed {
				return nil, errf(codeInternal, csRuntime, "Failed to create firewall rule")
			}
			r.state = ruleActive
			return fwAnswer{c.viewFW(r)}, nil
		},
		undo: func() { c.st.dropFWRule(r) },
	}, nil
}

// checkEgress runs the checks of the create phase in CloudStack's order.
func (c *call) checkEgress(r *fwRule) error {
	n := r.network
	for i, s := range r.cidrs {
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			return paramError("Source CIDRs formatting error [%s].", s)
		case s == "0.0.0.0/0":
			r.cidrs[i] = n.cidr.String()
		case !n.cidr.IsValid() || !within(p, n.cidr):
			return paramError("[%s] is not within the guest CIDR [%s]. ", s, n.cidr)
		}
	}
	for _, s := range r.destCIDRs {
		if _, err := netip.ParsePrefix(s); err != nil {
			return paramError("Destination CIDRs formatting error [%s].", s)
		}
	}
	if len(r.cidrs) == 0 && n.cidr.IsValid() {
		r.cidrs = []string{n.cidr.String()}
	}
	switch {
	case r.protocol == "all" && r.startPort != nil && r.endPort != nil:
		return invalid("Unable to create firewall rule for the network id=[%d] due to: ports must not be informed to protocol ALL, as it does not require them.", n.id)
	case n.vpc != nil:
		return invalid("Unable to create firewall rule for the network id=[%d] as firewall egress rule can be created only for non VPC networks.", n.id)
	case n.typ == typeShared:
		return invalid("Egress firewall rules are not supported for %s  networks", n.typ)
	}
	if err := r.checkPortRange(); err != nil {
		return err
	}
	switch {
	case !c.operates(n):
		return denied()
	case !n.provides("Firewall"):
		return c.internal(4390, "Service Firewall is not supported in the network %s", n.text())
	case !strings.Contains("tcp,udp,icmp, all", r.protocol) || r.protocol == "": //nolint:gocritic // CloudStack searches the list as a text
		return invalid("Protocol %s is not supported in zone %d", c.str("protocol"), n.zone.id)
	}
	if err := r.checkICMP(); err != nil {
		return err
	}
	if r.system {
		return nil
	}
	var peers []*fwRule
	for _, o := range c.st.egress.rows {
		if o.network == n {
			peers = append(peers, o)
		}
	}
	if err := r.conflictWith(peers); err != nil {
		if e := asAPIError(err); e.status == codeConflict {
			return errf(codeConflict, csGeneric, "%s", e.text) // this command wraps the error
		}
		return err
	}
	return nil
}

// updateFirewallRule changes what only root admins can change: the visibility of the rule, and its UUID.
func updateFirewallRule(c *call) (*jobSpec, error) {
	r := arg[*fwRule](c, "id")
	return &jobSpec{run: func(time.Time) (any, error) {
		switch {
		case r == nil || r.removed || (r.ip == nil) != (c.api.Name == "updateEgressFirewallRule"):
			return nil, invalid("Unable to find %d having purpose Firewall", c.refs["id"].id)
		case !c.access(r.account):
			return nil, denied()
		}
		setDisplay(c, c.st.firewallTable(r), r, &r.hidden)
		return fwAnswer{c.viewFW(r)}, nil
	}}, nil
}

// firewallTable returns the table that holds the rule.
func (st *state) firewallTable(r *fwRule) *table[*fwRule] {
	if r.ip == nil {
		return st.egress
	}
	return st.fwRules
}
