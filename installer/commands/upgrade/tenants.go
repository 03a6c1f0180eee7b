// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
)

// planTenants finds the Services that the new chart's policy for tenants would refuse. Where the controller so far has
// no policy, values keep those which have an address. CloudStack is not asked: check TEN-002 of csccm doctor is.
func (p *Plan) planTenants(ctx context.Context, e *engine.Env, o Options, deployed string) error {
	policy, set, err := tenants.PolicyOfManifest(p.manifest)
	if err == nil && !set {
		return nil
	}
	services, lerr := e.Cluster.Kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if lerr != nil {
		return e.Cluster.Explain(lerr)
	}
	view := tenants.View{Services: services.Items}
	if err == nil && policy.NeedsLabels() {
		if view.Labels, lerr = cluster.NamespaceLabels(ctx, e.Cluster.Kube); lerr != nil {
			return e.Cluster.Explain(lerr)
		}
	}
	if p.Tenants, err = tenants.NewPlan(p.manifest, deployed, o.StrictTenancy, view); err != nil {
		return report.Usage(err.Error(), "correct the chart value tenancy")
	}
	if p.Tenants == nil {
		return nil
	}
	for _, line := range p.Tenants.Lines() {
		e.Progress.Warn("%s", line)
	}
	if p.Tenants.Values != nil && o.Interactive && !e.Yes && !e.DryRun && !e.Structured() {
		keep, err := e.Prompt.Confirm(ctx, prompt.Question{Message: p.Tenants.Question(), Flag: "--yes, or --strict-tenancy", Default: "yes", Help: tenants.Help})
		if err != nil {
			return err
		}
		if !keep {
			p.Tenants = p.Tenants.Strict()
		}
	}
	if p.Tenants.Values == nil {
		return nil
	}
	e.Progress.Info("chart values keep %s (--strict-tenancy leaves them refused)", strings.Join(p.Tenants.Kept(), ", "))
	p.Values = helm.MergeValues(p.Values, p.Tenants.Values)
	p.manifest, err = e.Helm.Template(ctx, helm.ApplyRequest{Name: e.Release, Chart: o.Chart, Values: p.Values, KubeVersion: o.KubeVersion})
	return err
}
