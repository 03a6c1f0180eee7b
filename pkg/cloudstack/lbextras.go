// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack/internal/flex"
)

// StickinessPolicy keeps clients of a rule at their VMs.
type StickinessPolicy struct {
	ID     string            `json:"id"`
	Name   string            `json:"name"`
	Method string            `json:"methodname"`
	Params map[string]string `json:"-"`
}

// ListStickinessPolicies lists the policies of a rule, of which there is at most one that works.
func (c *Client) ListStickinessPolicies(ctx context.Context, ruleID string) ([]StickinessPolicy, error) {
	const command = "listLBStickinessPolicies"
	type policyJSON struct {
		StickinessPolicy
		State  string                 `json:"state"`
		Params map[string]flex.String `json:"params"`
	}
	type ruleJSON struct {
		Policies []policyJSON `json:"stickinesspolicy"`
	}
	// One entry for the rule, whatever number of policies it has: nothing to page.
	raw, _, err := listPage[ruleJSON](ctx, c, command, "stickinesspolicies", filter{"lbruleid": ruleID})
	if err != nil {
		return nil, err
	}
	var out []StickinessPolicy
	for i := range raw {
		for _, p := range raw[i].Policies {
			if p.State == "Revoked" {
				continue
			}
			policy := p.StickinessPolicy
			policy.Params = make(map[string]string, len(p.Params))
			for k, v := range p.Params {
				policy.Params[k] = string(v)
			}
			out = append(out, policy)
		}
	}
	return out, nil
}

// CreateStickinessPolicy sets the policy of a rule; an earlier one is replaced.
func (c *Client) CreateStickinessPolicy(ctx context.Context, ruleID string, p StickinessPolicy) (Submitted, error) {
	f := filter{"lbruleid": ruleID, "name": p.Name, "methodname": p.Method}
	for i, k := range slices.Sorted(maps.Keys(p.Params)) {
		prefix := "param[" + strconv.Itoa(i) + "]."
		f[prefix+"name"], f[prefix+"value"] = k, p.Params[k]
	}
	return c.submit(ctx, "createLBStickinessPolicy", f)
}

// DeleteStickinessPolicy removes a policy; one that is gone is KindNotFound.
func (c *Client) DeleteStickinessPolicy(ctx context.Context, id string) (Submitted, error) {
	return c.submit(ctx, "deleteLBStickinessPolicy", filter{"id": id})
}

// ListCertificatesOfRule lists the ids of the certificates bound to a rule, of which there is at most one.
func (c *Client) ListCertificatesOfRule(ctx context.Context, ruleID string) ([]string, error) {
	type certJSON struct {
		ID string `json:"id"`
	}
	raw, _, err := listPage[certJSON](ctx, c, "listSslCerts", "sslcert", filter{"lbruleid": ruleID})
	if err != nil {
		return nil, err
	}
	return convert(raw, func(c *certJSON) string { return c.ID }), nil
}

// AssignCertificate binds a certificate to a rule of protocol ssl, in place of another one if there is.
func (c *Client) AssignCertificate(ctx context.Context, ruleID, certID string) (Submitted, error) {
	return c.submit(ctx, "assignCertToLoadBalancer", filter{"lbruleid": ruleID, "certid": certID, "forced": "true"})
}
