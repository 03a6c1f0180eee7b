// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"slices"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// LoadBalancerRuleQuery filters listLoadBalancerRules. Name is exact, Keyword a
// part of name or description (with _ and % as wildcards); Tags must all match.
// An unknown ID is KindNotFound.
type LoadBalancerRuleQuery struct {
	ID, Name, Keyword, PublicIPID, NetworkID, ProjectID string
	VMID                                                string // only rules that have it as a member
	Tags                                                map[string]string
	ListAll                                             bool
}

type ruleJSON struct {
	LoadBalancerRule
	PublicPort  flex.Int   `json:"publicport"`
	PrivatePort flex.Int   `json:"privateport"`
	IdleTimeout flex.Int   `json:"idletimeout"`
	CIDRs       *string    `json:"cidrlist"`
	Tags        []flex.Tag `json:"tags"`
}

func (r *ruleJSON) toRule() LoadBalancerRule {
	out := r.LoadBalancerRule
	out.PublicPort, out.PrivatePort, out.IdleTimeout = int(r.PublicPort), int(r.PrivatePort), int64(r.IdleTimeout)
	out.CIDRs, out.Tags = flex.SplitCIDRs(r.CIDRs), flex.TagMap(r.Tags)
	return out
}

// ListLoadBalancerRules lists public load balancer rules.
func (c *Client) ListLoadBalancerRules(ctx context.Context, q LoadBalancerRuleQuery) ([]LoadBalancerRule, error) {
	f := filter{}.set("id", q.ID).set("name", q.Name).set("keyword", q.Keyword).set("publicipid", q.PublicIPID).
		set("networkid", q.NetworkID).set("virtualmachineid", q.VMID).set("projectid", q.ProjectID).flag("listall", q.ListAll).tags(q.Tags)
	rules, err := list(ctx, c, "listLoadBalancerRules", "loadbalancerrule", f, func(r *ruleJSON) string { return r.ID }, (*ruleJSON).toRule)
	return slices.DeleteFunc(rules, func(r LoadBalancerRule) bool { return !hasTags(r.Tags, q.Tags) }), err
}

// ListLoadBalancerMembers lists the VMs behind a rule with the addresses used.
// Destroyed VMs are not among them, stopped ones are.
func (c *Client) ListLoadBalancerMembers(ctx context.Context, ruleID string) ([]LoadBalancerMember, error) {
	return members(ctx, c, filter{"id": ruleID, "lbvmips": "true"})
}

// CreateLoadBalancerRuleRequest makes a rule without members. CIDRs nil leaves
// the rule without source ranges (open as far as the firewall lets).
type CreateLoadBalancerRuleRequest struct {
	Name, Description, Algorithm, Protocol string
	PublicIPID                             string
	NetworkID                              string // of an address of a VPC: the tier
	PublicPort, PrivatePort                int
	CIDRs                                  []string
	OpenFirewall                           bool // always sent explicitly
	RuleTimeouts
}

// RuleTimeouts are parameters of load balancer rules that apache/cloudstack#14131 proposes; zero values are not sent.
// Servers ignore parameters that they do not know: ask ListAPIs first.
type RuleTimeouts struct {
	IdleTimeout int64 // milliseconds
	KeepAlive   *bool
}

// Names of RuleTimeouts as parameters. That the answers show them under the same names is a guess.
const (
	ParamIdleTimeout = "idletimeout"
	ParamKeepAlive   = "keepalive"
)

func (t RuleTimeouts) set(f filter) {
	if t.IdleTimeout > 0 {
		f[ParamIdleTimeout] = strconv.FormatInt(t.IdleTimeout, 10)
	}
	if t.KeepAlive != nil {
		f[ParamKeepAlive] = strconv.FormatBool(*t.KeepAlive)
	}
}

// CreateLoadBalancerRule makes a rule. Rules of one address should be made one
// after the other; the server locks them with long sleeps.
func (c *Client) CreateLoadBalancerRule(ctx context.Context, r CreateLoadBalancerRuleRequest) (Submitted, error) {
	f := filter{
		"algorithm": r.Algorithm, "name": r.Name, "publicport": strconv.Itoa(r.PublicPort), "privateport": strconv.Itoa(r.PrivatePort),
		"openfirewall": strconv.FormatBool(r.OpenFirewall),
	}.set("publicipid", r.PublicIPID).set("networkid", r.NetworkID).set("protocol", r.Protocol).set("description", r.Description)
	if r.CIDRs != nil {
		f["cidrlist"] = joinIDs(r.CIDRs)
	}
	r.set(f)
	return c.submit(ctx, "createLoadBalancerRule", f)
}

// UpdateLoadBalancerRuleRequest changes a rule in place. Send Protocol always:
// a rule made without one breaks the job otherwise.
type UpdateLoadBalancerRuleRequest struct {
	ID, Name, Algorithm, Protocol, Description string // "" = leave; Protocol should always be sent
	CIDRs                                      *[]string
	RuleTimeouts
}

// UpdateLoadBalancerRule changes name, algorithm, protocol, description, source ranges or time-outs.
func (c *Client) UpdateLoadBalancerRule(ctx context.Context, r UpdateLoadBalancerRuleRequest) (Submitted, error) {
	f := filter{"id": r.ID}.set("name", r.Name).set("algorithm", r.Algorithm).set("protocol", r.Protocol).set("description", r.Description)
	if r.CIDRs != nil {
		f["cidrlist"] = joinIDs(*r.CIDRs)
	}
	r.set(f)
	return c.submit(ctx, "updateLoadBalancerRule", f)
}

// DeleteLoadBalancerRule deletes a rule; one that is gone is KindNotFound.
func (c *Client) DeleteLoadBalancerRule(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteLoadBalancerRule", filter{"id": id})
}
