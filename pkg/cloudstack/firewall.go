// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FirewallRule is an ingress rule on a public IP of an isolated network.
type FirewallRule struct {
	ID         string            `json:"id"`
	PublicIPID string            `json:"ipaddressid"`
	Protocol   string            `json:"protocol"`
	StartPort  int               `json:"startport"` // with EndPort 0,0 means all ports
	EndPort    int               `json:"endport"`
	CIDRs      []string          `json:"cidrlist"`
	State      string            `json:"state"`
	Tags       map[string]string `json:"tags"`
}

// FirewallRuleQuery filters listFirewallRules. An address that is no longer allocated is KindInvalid.
type FirewallRuleQuery struct {
	PublicIPID, NetworkID, ProjectID string
}

// ListFirewallRules lists ingress firewall rules.
func (c *Client) ListFirewallRules(ctx context.Context, q FirewallRuleQuery) ([]FirewallRule, error) {
	f := Params{}.Set("ipaddressid", q.PublicIPID).Set("networkid", q.NetworkID).Set("projectid", q.ProjectID)
	return List(ctx, c, "listFirewallRules", "firewallrule", f, func(r *FirewallRule) string { return r.ID })
}

// CreateFirewallRuleRequest opens a port range of an address. StartPort and EndPort 0 mean all ports. CIDRs must not be
// empty: the server would allow everyone.
type CreateFirewallRuleRequest struct {
	PublicIPID, Protocol string
	StartPort, EndPort   int
	CIDRs                []string
}

// CreateFirewallRule creates an ingress rule. Create the rules of one address one after the other: the server
// serialises them with a lock and long sleeps.
func (c *Client) CreateFirewallRule(ctx context.Context, r CreateFirewallRuleRequest) (Submitted, error) {
	const command = "createFirewallRule"
	if len(r.CIDRs) == 0 {
		return Submitted{}, &Error{
			Kind:    KindInvalid,
			Command: command,
			Text: "source ranges are missing, without which the rule would be open to everyone; name 0.0.0.0/0 if " +
				"that is meant",
		}
	}
	f := Params{"ipaddressid": r.PublicIPID, "protocol": r.Protocol, "cidrlist": joined(r.CIDRs)}
	if r.StartPort != 0 || r.EndPort != 0 {
		f["startport"], f["endport"] = strconv.Itoa(r.StartPort), strconv.Itoa(cmp.Or(r.EndPort, r.StartPort))
	}
	return c.Submit(ctx, command, f)
}

// NetworkACL is one item of a network ACL list: a rule for a VPC tier.
type NetworkACL struct {
	ID        string            `json:"id"`
	ListID    string            `json:"aclid"`
	ListName  string            `json:"aclname"`
	Number    int               `json:"number"`
	Protocol  string            `json:"protocol"`  // tcp, udp, icmp, all, or a number as text
	StartPort int               `json:"startport"` // with EndPort 0,0 means all ports
	EndPort   int               `json:"endport"`
	CIDRs     []string          `json:"cidrlist"`
	Ingress   bool              `json:"-"`
	Allow     bool              `json:"-"`
	Reason    string            `json:"reason"`
	State     string            `json:"state"`
	Tags      map[string]string `json:"tags"`
}

// UnmarshalJSONFrom reads an entry of listNetworkACLs.
func (a *NetworkACL) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	type plain NetworkACL
	var entry struct {
		plain
		TrafficType string `json:"traffictype"`
		Action      string `json:"action"`
	}
	err := json.UnmarshalDecode(d, &entry)
	*a = NetworkACL(entry.plain)
	a.Ingress, a.Allow = entry.TrafficType != "Egress", entry.Action != "Deny"
	return err
}

// NetworkACLQuery filters listNetworkACLs. Without ListID it selects every item that the caller may see, including
// those of the two default lists.
type NetworkACLQuery struct {
	ListID, ProjectID string
}

// ListNetworkACLs lists items of network ACL lists.
func (c *Client) ListNetworkACLs(ctx context.Context, q NetworkACLQuery) ([]NetworkACL, error) {
	f := Params{}.Set("aclid", q.ListID).Set("projectid", q.ProjectID)
	return List(ctx, c, "listNetworkACLs", "networkacl", f, func(a *NetworkACL) string { return a.ID })
}

// CreateNetworkACLRequest allows source ranges. Items of a list apply in the order of their numbers; Number must be
// unused.
type CreateNetworkACLRequest struct {
	ListID, Protocol   string
	StartPort, EndPort int
	CIDRs              []string // not empty: the server would allow everyone
	Number             int
	Reason             string
}

// CreateNetworkACL creates an item that allows ingress.
func (c *Client) CreateNetworkACL(ctx context.Context, r CreateNetworkACLRequest) (Submitted, error) {
	const command = "createNetworkACL"
	if len(r.CIDRs) == 0 || r.Number < 1 {
		return Submitted{}, &Error{
			Kind:    KindInvalid,
			Command: command,
			Text: "source ranges and a number are needed, without which the item would be open to everyone " +
				"or come last",
		}
	}
	f := Params{
		"aclid":     r.ListID,
		"protocol":  r.Protocol,
		"startport": strconv.Itoa(r.StartPort),
		"endport":   strconv.Itoa(r.EndPort),
		"cidrlist":  joined(r.CIDRs), "number": strconv.Itoa(r.Number), "traffictype": "Ingress", "action": "Allow",
	}.Set("reason", r.Reason)
	return c.Submit(ctx, command, f)
}
