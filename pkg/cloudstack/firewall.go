// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import "context"

// FirewallRuleQuery filters listFirewallRules. An address that is not allocated
// any more is KindInvalid, an unknown ID KindNotFound.
type FirewallRuleQuery struct {
	ID, PublicIPID, NetworkID, ProjectID string
	ListAll                              bool
}

type firewallJSON struct {
	ID         string    `json:"id"`
	PublicIPID string    `json:"ipaddressid"`
	Protocol   string    `json:"protocol"`
	StartPort  flexInt   `json:"startport"`
	EndPort    flexInt   `json:"endport"`
	CIDRs      *string   `json:"cidrlist"`
	State      string    `json:"state"`
	NetworkID  string    `json:"networkid"`
	Tags       []tagJSON `json:"tags"`
}

func (r *firewallJSON) toRule() FirewallRule {
	return FirewallRule{
		ID: r.ID, PublicIPID: r.PublicIPID, Protocol: r.Protocol, StartPort: int(r.StartPort), EndPort: int(r.EndPort),
		CIDRs: splitCIDRs(r.CIDRs), State: r.State, NetworkID: r.NetworkID, Tags: tagMap(r.Tags),
	}
}

// ListFirewallRules lists ingress firewall rules.
func (c *Client) ListFirewallRules(ctx context.Context, q FirewallRuleQuery) ([]FirewallRule, error) {
	f := filter{}.set("id", q.ID).set("ipaddressid", q.PublicIPID).set("networkid", q.NetworkID).
		set("projectid", q.ProjectID).flag("listall", q.ListAll)
	raw, err := listAll(ctx, c, "listFirewallRules", "firewallrule", f, callOptions{}, func(r *firewallJSON) string { return r.ID })
	if err != nil {
		return nil, err
	}
	return convert(raw, (*firewallJSON).toRule), nil
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
	return c.submit(ctx, command, func(l *lane) (Submitted, error) {
		p := l.sdk.Firewall.NewCreateFirewallRuleParams(r.PublicIPID, r.Protocol)
		p.SetCidrlist(r.CIDRs)
		if r.StartPort != 0 || r.EndPort != 0 {
			p.SetStartport(r.StartPort)
			end := r.EndPort
			if end == 0 {
				end = r.StartPort
			}
			p.SetEndport(end)
		}
		answer, err := l.sdk.Firewall.CreateFirewallRule(p)
		if err != nil {
			return Submitted{}, err
		}
		return Submitted{ID: answer.Id, JobID: answer.JobID}, nil
	})
}

// DeleteFirewallRule deletes an ingress rule; one that is gone is KindNotFound.
func (c *Client) DeleteFirewallRule(ctx context.Context, id string) (Submitted, error) {
	const command = "deleteFirewallRule"
	return c.submit(ctx, command, func(l *lane) (Submitted, error) {
		answer, err := l.sdk.Firewall.DeleteFirewallRule(l.sdk.Firewall.NewDeleteFirewallRuleParams(id))
		if err != nil {
			return Submitted{}, err
		}
		return Submitted{JobID: answer.JobID}, nil
	})
}
