// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
)

// planTenants compares the Services with the policy of csccm's controller, where it is installed already: whoever
// installed its chart has to keep them. csccm install does that by itself.
func planTenants(ctx context.Context, c *cluster.Cluster, facts *Facts) (*tenants.Plan, error) {
	policy, set, err := tenants.PolicyOf(facts.Own.Words)
	if err != nil || !set {
		return nil, err
	}
	view := tenants.View{Services: facts.Services}
	if policy.NeedsLabels() {
		if view.Labels, err = cluster.NamespaceLabels(ctx, c.Kube); err != nil {
			return nil, err
		}
	}
	rules := make([]cloudstack.LoadBalancerRule, len(facts.Rules))
	for i := range facts.Rules {
		rules[i] = facts.Rules[i].LoadBalancerRule
	}
	view.Addresses = tenants.Addresses(facts.Addresses, rules, facts.Services, func(tag string, own bool) bool {
		return provider.OwnClusterTag(tag, facts.ClusterID, own)
	})
	return tenants.PlanOf(facts.Own.Words, view)
}

// writeTenants shows what the policy refuses, and the chart values that keep it.
func writeTenants(w io.Writer, style report.Style, p *tenants.Plan) error {
	if p == nil {
		return nil
	}
	text := "The policy for tenants (chart value tenancy) refuses what Services use now:\n"
	for i := range p.Refused {
		r := &p.Refused[i]
		text += style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, r.Service+": "+r.Message)
	}
	if p.Values != nil {
		values, err := json.Marshal(p.Values)
		if err == nil {
			values, err = yaml.JSONToYAML(values)
		}
		if err != nil {
			return err
		}
		text += "Chart values that keep them, to be set before:\n" + string(values)
	}
	_, err := io.WriteString(w, text)
	return err
}
