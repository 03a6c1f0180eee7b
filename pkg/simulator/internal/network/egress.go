// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

func listEgressFirewallRules(c *wire.Call) (any, error) {
	in, err := c.OwnerScope(c.ByID())
	if err != nil {
		return nil, err
	}
	var out []*store.FWRule
	for _, r := range slices.Backward(c.St.Egress.Rows) {
		if in(r.Account) && wire.Matches(c, "id", r) && wire.Matches(c, "networkid", r.Network) && !c.Given("ipaddressid") &&
			r.HasTags(c.TagFilter()) && c.Visible("fordisplay", r.Hidden) {
			out = append(out, r)
		}
	}
	return wire.Page(c, "firewallrule", out, func(r *store.FWRule) fwView { return viewFW(c, r) })
}

func createEgressFirewallRule(c *wire.Call) (*wire.JobSpec, error) {
	n := wire.Arg[*store.Network](c, "networkid")
	if n == nil || n.Removed {
		return nil, wire.Invalid("Invalid networkId is given")
	}
	r := &store.FWRule{
		Entity: store.Entity{Created: c.Now}, Network: n, Protocol: strings.ToLower(strings.TrimSpace(c.Str("protocol"))), StartPort: c.OptInt("startport"),
		EndPort: c.OptInt("endport"), IcmpType: c.OptInt("icmptype"), IcmpCode: c.OptInt("icmpcode"), CIDRs: c.List("cidrlist"), DestCIDRs: c.List("destcidrlist"),
		State: store.RuleAdd, Account: n.Owner, Hidden: c.Has("fordisplay") && !c.Boolean("fordisplay"), System: strings.EqualFold(c.Str("type"), "system"),
	}
	if r.EndPort == nil {
		r.EndPort = r.StartPort
	}
	if err := checkEgress(c, r); err != nil {
		return nil, err
	}
	c.St.Egress.AddWithID(r, c.St.RuleID())
	return &wire.JobSpec{
		ObjectID: r.UUID, InstanceType: "FirewallRule", InstanceID: r.UUID,
		Run: func(time.Time) (any, error) {
			if r.Removed {
				return nil, wire.Errf(wire.CodeInternal, wire.CSRuntime, "Failed to create firewall rule")
			}
			r.State = store.RuleActive
			return fwAnswer{viewFW(c, r)}, nil
		},
		Undo: func() { c.St.DropFWRule(r) },
	}, nil
}

// checkEgress runs the checks of the create phase in CloudStack's order.
func checkEgress(c *wire.Call, r *store.FWRule) error {
	n := r.Network
	for i, s := range r.CIDRs {
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			return wire.ParamError("Source CIDRs formatting error [%s].", s)
		case s == "0.0.0.0/0":
			r.CIDRs[i] = n.CIDR.String()
		case !n.CIDR.IsValid() || !within(p, n.CIDR):
			return wire.ParamError("[%s] is not within the guest CIDR [%s]. ", s, n.CIDR)
		}
	}
	for _, s := range r.DestCIDRs {
		if _, err := netip.ParsePrefix(s); err != nil {
			return wire.ParamError("Destination CIDRs formatting error [%s].", s)
		}
	}
	if len(r.CIDRs) == 0 && n.CIDR.IsValid() {
		r.CIDRs = []string{n.CIDR.String()}
	}
	switch {
	case r.Protocol == "all" && r.StartPort != nil && r.EndPort != nil:
		return wire.Invalid("Unable to create firewall rule for the network id=[%d] due to: ports must not be informed to protocol ALL, as it does not require them.", n.ID)
	case n.VPC != nil:
		return wire.Invalid("Unable to create firewall rule for the network id=[%d] as firewall egress rule can be created only for non VPC networks.", n.ID)
	case n.Typ == store.TypeShared:
		return wire.Invalid("Egress firewall rules are not supported for %s  networks", n.Typ)
	}
	if err := checkPortRange(r); err != nil {
		return err
	}
	switch {
	case !operates(c, n):
		return wire.Denied()
	case !n.Provides("Firewall"):
		return c.Internal(4390, "Service Firewall is not supported in the network %s", n.Text())
	case !strings.Contains("tcp,udp,icmp, all", r.Protocol) || r.Protocol == "": //nolint:gocritic // CloudStack searches the list as a text
		return wire.Invalid("Protocol %s is not supported in zone %d", c.Str("protocol"), n.Zone.ID)
	}
	if err := checkICMP(r); err != nil {
		return err
	}
	if r.System {
		return nil
	}
	var peers []*store.FWRule
	for _, o := range c.St.Egress.Rows {
		if o.Network == n {
			peers = append(peers, o)
		}
	}
	if err := wire.ConflictWith(r, peers); err != nil {
		if e := wire.AsAPIError(err); e.Status == wire.CodeConflict {
			return wire.Errf(wire.CodeConflict, wire.CSGeneric, "%s", e.Text) // this command wraps the error
		}
		return err
	}
	return nil
}

// updateFirewallRule changes what only root admins can change: the visibility of the rule, and its UUID.
func updateFirewallRule(c *wire.Call) (*wire.JobSpec, error) {
	r := wire.Arg[*store.FWRule](c, "id")
	return &wire.JobSpec{Run: func(time.Time) (any, error) {
		switch {
		case r == nil || r.Removed || (r.IP == nil) != (c.API.Name == "updateEgressFirewallRule"):
			return nil, wire.Invalid("Unable to find %d having purpose Firewall", c.Refs["id"].ID)
		case !c.Access(r.Account):
			return nil, wire.Denied()
		}
		wire.SetDisplay(c, c.St.FirewallTable(r), r, &r.Hidden)
		return fwAnswer{viewFW(c, r)}, nil
	}}, nil
}
