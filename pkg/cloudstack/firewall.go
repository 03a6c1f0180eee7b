// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// FirewallRuleQuery filters listFirewallRules. An address that is not allocated any more is KindInvalid.
type FirewallRuleQuery struct {
	PublicIPID, NetworkID, ProjectID string
}

type firewallJSON struct {
	FirewallRule
	StartPort flex.Int `json:"startport"`
	EndPort   flex.Int `json:"endport"`
	CIDRs     *string  `json:"cidrlist"`
}

func (r *firewallJSON) toRule() FirewallRule {
	out := r.FirewallRule
	out.StartPort, out.EndPort, out.CIDRs = int(r.StartPort), int(r.EndPort), flex.SplitCIDRs(r.CIDRs)
	return out
}

// ListFirewallRules lists ingress firewall rules.
func (c *Client) ListFirewallRules(ctx context.Context, q FirewallRuleQuery) ([]FirewallRule, error) {
	f := filter{}.set("ipaddressid", q.PublicIPID).set("networkid", q.NetworkID).set("projectid", q.ProjectID)
	return list(ctx, c, "listFirewallRules", "firewallrule", f, func(r *firewallJSON) string { return r.ID }, (*firewallJSON).toRule)
}

// CreateFirewallRuleRequest opens a port range of an address. StartPort and
// EndPort both 0 mean all ports. CIDRs must not be empty: the server would take
// that for the whole world.
type CreateFirewallRuleRequest struct {
	PublicIPID, Protocol string
	StartPort, EndPort   int
	CIDRs                []string
}

// CreateFirewallRule makes an ingress rule. Rules of one address should be made
// one after the other; the server locks them with long sleeps.
func (c *Client) CreateFirewallRule(ctx context.Context, r CreateFirewallRuleRequest) (Submitted, error) {
	const command = "createFirewallRule"
	if len(r.CIDRs) == 0 {
		return Submitted{}, &Error{Kind: KindInvalid, Command: command, Text: "source ranges are missing, without which the rule would be open to everyone; name 0.0.0.0/0 if that is meant"}
	}
	f := filter{"ipaddressid": r.PublicIPID, "protocol": r.Protocol, "cidrlist": joinIDs(r.CIDRs)}
	if r.StartPort != 0 || r.EndPort != 0 {
		f["startport"], f["endport"] = strconv.Itoa(r.StartPort), strconv.Itoa(cmp.Or(r.EndPort, r.StartPort))
	}
	return c.submit(ctx, command, f)
}

// DeleteFirewallRule deletes an ingress rule; one that is gone is KindNotFound.
func (c *Client) DeleteFirewallRule(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteFirewallRule", filter{"id": id})
}
