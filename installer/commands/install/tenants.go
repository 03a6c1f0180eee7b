// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
)

// planTenants finds the Services that the chart's policy for tenants would refuse, and gives the chart the values that
// keep those which have an address: an install changes nothing for Services that work.
func (in *Installer) planTenants(ctx context.Context) error {
	if _, set, err := tenants.PolicyOfManifest(in.plan.manifest); err == nil && !set {
		return nil // a chart whose controller has no policy
	}
	view, err := in.tenantsView(ctx)
	if err != nil {
		return err
	}
	deployed := ""
	if r := in.facts.release; r != nil && r.Deployed() {
		deployed = r.Manifest
	}
	p, err := tenants.NewPlan(in.plan.manifest, deployed, in.Options.StrictTenancy, view)
	if err != nil {
		return report.Usage(err.Error(), "correct the chart value tenancy")
	}
	if p == nil {
		return nil
	}
	for _, line := range p.Lines() {
		in.Progress.Warn("%s", line)
	}
	if p.Values != nil && in.Interactive && !in.Options.Yes && !in.Options.DryRun && !in.env.Structured() {
		keep, err := in.Prompt.Confirm(ctx, prompt.Question{Message: p.Question(), Flag: "--yes, or --strict-tenancy", Default: "yes", Help: tenants.Help})
		if err != nil {
			return err
		}
		if !keep {
			p, in.Options.StrictTenancy = p.Strict(), true // for the flag line
		}
	}
	in.plan.Tenants = p
	if p.Values == nil {
		return nil
	}
	in.Progress.Info("chart values keep %s: %s (--strict-tenancy leaves them refused)",
		strings.Join(p.Kept(), ", "), strings.Join(flatten("", p.Values), ", "))
	in.Options.Values = helm.MergeValues(in.Options.Values, p.Values)
	return in.planChart(ctx)
}

// tenantsView is what the policy is compared with; without keys CloudStack's addresses are not known.
func (in *Installer) tenantsView(ctx context.Context) (tenants.View, error) {
	services, err := in.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return tenants.View{}, in.Cluster.Explain(err)
	}
	view := tenants.View{Services: services.Items}
	policy, _, err := tenants.PolicyOfManifest(in.plan.manifest)
	if err == nil && policy.NeedsLabels() {
		if view.Labels, err = cluster.NamespaceLabels(ctx, in.Cluster.Kube); err != nil {
			return tenants.View{}, in.Cluster.Explain(err)
		}
	}
	if in.cloud != nil {
		view.Addresses, err = in.tenantsAddresses(ctx, services.Items)
	}
	return view, err
}

func (in *Installer) tenantsAddresses(ctx context.Context, services []corev1.Service) (map[string]tenants.Address, error) {
	id, err := cluster.Identity{Config: in.config.ClusterID}.Resolve(ctx, in.Cluster.Kube)
	if err != nil {
		return nil, in.Cluster.Explain(err)
	}
	addresses, err := in.cloud.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: in.config.ProjectID})
	if err != nil {
		return nil, fmt.Errorf("list public addresses: %w", err)
	}
	rules, err := in.cloud.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: in.config.ProjectID})
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules: %w", err)
	}
	return tenants.Addresses(addresses, rules, services, func(tag string, own bool) bool { return provider.OwnClusterTag(tag, id, own) }), nil
}

// describeTenants are the plan's lines about the policy.
func describeTenants(p *tenants.Plan) string {
	if p == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("  Tenants     the policy (chart value tenancy) and what Services use now:\n")
	for _, line := range p.Lines() {
		fmt.Fprintf(&b, "              ! %s\n", line)
	}
	return b.String()
}
