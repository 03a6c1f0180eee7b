// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// LoadBalancerRule is one public port of one public IP.
type LoadBalancerRule struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	PublicIPID  string `json:"publicipid"`
	PublicIP    string `json:"publicip"`
	PublicPort  int    `json:"publicport"`
	PrivatePort int    `json:"privateport"`
	// Protocol is tcp, udp, tcp-proxy or ssl; empty if the rule was created without one.
	Protocol  string            `json:"protocol"`
	Algorithm string            `json:"algorithm"`
	CIDRs     []string          `json:"cidrlist"` // source ranges; nil if never set, empty if set to an empty list
	NetworkID string            `json:"networkid"`
	State     string            `json:"state"` // Add, Active, Deleting
	Tags      map[string]string `json:"tags"`
}

// LoadBalancerRuleQuery filters listLoadBalancerRules. Keyword is a part of name or description, with _ and % as
// wildcards. An unknown ID is KindNotFound.
type LoadBalancerRuleQuery struct {
	ID, Keyword, PublicIPID, NetworkID, ProjectID string
	VMID                                          string // only rules that have it as a member
}

// ListLoadBalancerRules lists public load balancer rules.
func (c *Client) ListLoadBalancerRules(ctx context.Context, q LoadBalancerRuleQuery) ([]LoadBalancerRule, error) {
	f := Params{}.Set("id", q.ID).Set("keyword", q.Keyword).Set("publicipid", q.PublicIPID).
		Set("networkid", q.NetworkID).Set("virtualmachineid", q.VMID).Set("projectid", q.ProjectID)
	return List(ctx, c, "listLoadBalancerRules", "loadbalancerrule", f,
		func(r *LoadBalancerRule) string { return r.ID })
}

// CreateLoadBalancerRuleRequest describes a rule without members. With nil CIDRs the rule has no source ranges, and
// only the firewall restricts access.
type CreateLoadBalancerRuleRequest struct {
	Name, Description, Algorithm, Protocol string
	PublicIPID                             string
	NetworkID                              string // of an address of a VPC: the tier
	PublicPort, PrivatePort                int
	CIDRs                                  []string
}

// CreateLoadBalancerRule creates a rule. It never opens the firewall, which the server does by default. Create the
// rules of one address one after the other: the server serialises them with a lock and long sleeps.
func (c *Client) CreateLoadBalancerRule(ctx context.Context, r CreateLoadBalancerRuleRequest) (Submitted, error) {
	f := Params{
		"algorithm":    r.Algorithm,
		"name":         r.Name,
		"publicport":   strconv.Itoa(r.PublicPort),
		"privateport":  strconv.Itoa(r.PrivatePort),
		"openfirewall": "false",
	}.Set("publicipid", r.PublicIPID).Set("networkid", r.NetworkID).Set("protocol", r.Protocol).
		Set("description", r.Description)
	return c.Submit(ctx, "createLoadBalancerRule", f.Set("cidrlist", joined(r.CIDRs)))
}

// UpdateLoadBalancerRuleRequest changes a rule in place. Always set Protocol: otherwise the job fails for a rule that
// was created without one.
type UpdateLoadBalancerRuleRequest struct {
	ID, Name, Algorithm, Protocol string   // "" means unchanged
	CIDRs                         []string // empty means unchanged
}

// UpdateLoadBalancerRule changes name, algorithm, protocol or source ranges.
func (c *Client) UpdateLoadBalancerRule(ctx context.Context, r UpdateLoadBalancerRuleRequest) (Submitted, error) {
	f := Params{"id": r.ID}.Set("name", r.Name).Set("algorithm", r.Algorithm).Set("protocol", r.Protocol)
	return c.Submit(ctx, "updateLoadBalancerRule", f.Set("cidrlist", joined(r.CIDRs)))
}

// LoadBalancerMember is a VM that is a member of a rule, with the addresses used there.
type LoadBalancerMember struct {
	VMID      string
	Name      string
	State     VMState
	Addresses []string
}

// UnmarshalJSONFrom reads an entry of listLoadBalancerRuleInstances. The drift check reads this list for each rule, and
// an entry has some 2 KB: skipping unused fields takes half the time of decoding into a struct.
func (m *LoadBalancerMember) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*m = LoadBalancerMember{}
	return eachMember(d, func(name []byte) error {
		switch string(name) {
		case "loadbalancerruleinstance":
			return eachMember(d, func(name []byte) error {
				switch string(name) {
				case "id":
					return readString(d, &m.VMID)
				case "name":
					return readString(d, &m.Name)
				case "state":
					return readString(d, (*string)(&m.State))
				}

				return d.SkipValue()
			})

		case "lbvmipaddresses":
			return json.UnmarshalDecode(d, &m.Addresses)
		}

		return d.SkipValue()
	})
}

// ListLoadBalancerMembers lists the members of a rule with the addresses used. Stopped VMs are in the list, destroyed
// ones are not.
func (c *Client) ListLoadBalancerMembers(ctx context.Context, ruleID string) ([]LoadBalancerMember, error) {
	return listWhole[LoadBalancerMember](ctx, c, "listLoadBalancerRuleInstances", "lbrulevmidip",
		Params{"id": ruleID, "lbvmips": "true"})
}

// MemberAddress is a VM with one of its addresses in the rule's network. An empty IP means the address of its NIC
// there.
type MemberAddress struct {
	VMID, IP string
}

// AssignToLoadBalancerRule adds members. One VM that is already a member, or cannot be one, fails the job for all.
func (c *Client) AssignToLoadBalancerRule(
	ctx context.Context, ruleID string, members []MemberAddress,
) (Submitted, error) {
	return c.Submit(ctx, "assignToLoadBalancerRule", memberParams(ruleID, members))
}

// RemoveFromLoadBalancerRule removes members; a VM without IP is removed with all its addresses. The server ignores VMs
// that are not members, but an address that is not a member fails the job.
func (c *Client) RemoveFromLoadBalancerRule(
	ctx context.Context, ruleID string, members []MemberAddress,
) (Submitted, error) {
	return c.Submit(ctx, "removeFromLoadBalancerRule", memberParams(ruleID, members))
}

func memberParams(ruleID string, members []MemberAddress) Params {
	f := Params{"id": ruleID}
	var ids []string
	n := 0
	for _, m := range members {
		if m.IP == "" {
			ids = append(ids, m.VMID)
			continue
		}
		prefix := "vmidipmap[" + strconv.Itoa(n) + "]."
		f[prefix+"vmid"], f[prefix+"vmip"] = m.VMID, m.IP
		n++
	}
	return f.Set("virtualmachineids", joined(ids))
}

// StickinessPolicy sends each client of a rule to the same VM.
type StickinessPolicy struct {
	ID     string            `json:"id"`
	Name   string            `json:"name"`
	Method string            `json:"methodname"`
	State  string            `json:"state"`
	Params map[string]string `json:"params"`
}

// ListStickinessPolicies lists the policies of a rule, of which at most one has an effect.
func (c *Client) ListStickinessPolicies(ctx context.Context, ruleID string) ([]StickinessPolicy, error) {
	type rule struct {
		Policies []StickinessPolicy `json:"stickinesspolicy"`
	}
	// The answer has one entry for the rule, whatever the number of policies, so there are no pages.
	rules, err := listWhole[rule](ctx, c, "listLBStickinessPolicies", "stickinesspolicies", Params{"lbruleid": ruleID})
	var out []StickinessPolicy
	for _, r := range rules {
		out = append(out,
			slices.DeleteFunc(r.Policies, func(p StickinessPolicy) bool { return p.State == "Revoked" })...)
	}
	return out, err
}

// CreateStickinessPolicy sets the policy of a rule; an earlier one is replaced.
func (c *Client) CreateStickinessPolicy(ctx context.Context, ruleID string, p StickinessPolicy) (Submitted, error) {
	f := Params{"lbruleid": ruleID, "name": p.Name, "methodname": p.Method}
	for i, k := range slices.Sorted(maps.Keys(p.Params)) {
		prefix := "param[" + strconv.Itoa(i) + "]."
		f[prefix+"name"], f[prefix+"value"] = k, p.Params[k]
	}
	return c.Submit(ctx, "createLBStickinessPolicy", f)
}

// ListCertificatesOfRule lists the ids of the certificates bound to a rule, of which there is at most one.
func (c *Client) ListCertificatesOfRule(ctx context.Context, ruleID string) ([]string, error) {
	return listWhole[string](ctx, c, "listSslCerts", "sslcert", Params{"lbruleid": ruleID})
}

// AssignCertificate binds a certificate to a rule of protocol ssl. It replaces the current one, if any.
func (c *Client) AssignCertificate(ctx context.Context, ruleID, certID string) (Submitted, error) {
	return c.Submit(ctx, "assignCertToLoadBalancer", Params{"lbruleid": ruleID, "certid": certID, "forced": "true"})
}
