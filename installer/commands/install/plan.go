// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// plan is what an install decides before it changes the cluster; shown is what people and programs see of it.
type plan struct {
	action    string // what happens to the Helm release
	manifest  string
	newSecret *credentials.SecretPlan // nil as long as the controller's credentials do not exist
	order     *takeover.Plan          // nil where no other provider is there. Its Services are compared once there are credentials
	taker     *takeover.Taker         // of order, with its Services; nil before
	refused   []tenants.Refusal       // by the policy for tenants
	taints    *taint.Plan             // nil as long as the controller's credentials do not exist
	objects   []diff.Change           // what the API server says would become of the chart's objects; nil when it was not asked
	warned    map[string]bool         // warnings of checks that were shown
}

const (
	actionInstall = "install"
	actionUpgrade = "upgrade"
	actionKeep    = "keep"
	// actionRestore is for a release that is what is wanted, and whose objects somebody has changed or deleted.
	actionRestore = "restore"
)

// render decides what is to be done with the release.
func (r *run) render(ctx context.Context) (err error) {
	r.warned = map[string]bool{}
	if r.caPEM != nil {
		r.setDefault("caBundle", map[string]any{"configMapName": credentials.CAConfigMap})
	}
	values := r.chartValues()
	r.manifest, err = r.Render(ctx, helm.ApplyRequest{Name: r.Release, Chart: r.Chart, Values: values, KubeVersion: r.version})
	switch {
	case err != nil:
	case r.release == nil:
		r.action = actionInstall
	case r.release.UpToDate(r.Chart, values, r.manifest):
		r.action = actionKeep
	default:
		r.action = actionUpgrade
	}
	return err
}

// planOrder says, by the cluster alone, who would be replaced in which order; an error is what
// keeps it from happening, known before anything is made in CloudStack.
func (r *run) planOrder(context.Context) error {
	if len(r.predecessors()) == 0 {
		return nil
	}
	controllers := *r.controllers
	controllers.Own.Lease = family.LeaseOfChart(r.manifest)
	r.order = takeover.PlanOrder(&controllers)
	if r.order.Problem != nil {
		return r.order.Problem
	}
	if r.pending() {
		r.Progress.Info("what changes of which Service is seen with the new user's keys and asked then; without consent the user in CloudStack stays, for the next run")
	}
	return nil
}

// planTakeover compares, now that there are keys, the current state of each Service with what the new
// controller would make of it. Chart values that keep the nodes' forms join those of the operator.
func (r *run) planTakeover(ctx context.Context) error {
	if r.order == nil || r.order.Problem != nil {
		return nil //nolint:nilerr // consent returns the problem, after the plan was shown
	}
	r.Progress.Step("What the other provider has made")
	t := &takeover.Taker{Env: r.Env, API: r.api, Config: r.config, Options: takeover.Options{Accept: r.Accept, Pin: r.Pin, ClusterID: r.ClusterID}}
	found, err := t.Detect(ctx)
	if err == nil {
		found.Own.Lease = family.LeaseOfChart(r.manifest)
		err = t.MakePlan(ctx, found)
	}
	if err != nil {
		return r.Cluster.Explain(err)
	}
	r.order, r.taker = t.Plan, t
	for name, value := range t.Plan.Values {
		r.setDefault(name, value)
	}
	if err := r.render(ctx); err != nil {
		return err
	}
	r.Progress.Done("%s", english.Plural(len(t.Plan.Services), "Service", ""))
	return nil
}

// consent has somebody agree to what the takeover changes.
func (r *run) consent(ctx context.Context) error {
	if r.taker == nil {
		return nil
	}
	err := r.taker.Consent(ctx)
	r.Accept, r.Pin = r.taker.Accept, r.taker.Pin // for the flag line
	return err
}

// planNodes says what happens to the Secret, and which existing nodes are to be initialised, now that the credentials are known.
func (r *run) planNodes(ctx context.Context) (err error) {
	if r.newSecret, err = credentials.PlanSecret(r.secret, r.config); err != nil {
		return err
	}
	if r.taints, err = r.taintPlan(ctx); err != nil || r.SkipTaint {
		return err
	}
	for _, problem := range r.taints.Problems {
		r.Progress.Warn("%s", problem.Text)
		r.Progress.Info("fix: %s", problem.Remedy)
	}
	return r.taints.Blocked()
}

// taintPlan reads nodes and VMs as they are now.
func (r *run) taintPlan(ctx context.Context) (*taint.Plan, error) {
	var err error
	nodes := cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Nodes().List).Items
	if err != nil {
		return nil, r.Cluster.Explain(err)
	}
	inv := inventory.New(r.api, inventory.Options{ProjectID: r.config.ProjectID, Zone: r.config.Zone, NodeVMs: r.config.NodeVMs, Clock: r.Clock})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	text, _ := r.chartValues()["instanceTypeFormat"].(string)
	form, err := node.ParseLabelForm(text)
	return taint.NewPlan(taint.Facts{Nodes: nodes, VMs: vms, Region: r.config.Region, LabelForm: form}), err
}

// diffObjects has the API server judge every object of the plan by dry runs: what it refuses ends the install before the first write.
func (r *run) diffObjects(ctx context.Context) (err error) {
	old := ""
	if r.release != nil {
		old = r.release.Manifest
	}
	if r.newSecret != nil && r.Diff != nil {
		if err := r.newSecret.DryRun(ctx, r.Cluster.Kube); err != nil {
			return r.Cluster.Explain(err)
		}
	}
	if r.objects, err = r.Changes(ctx, old, r.manifest); err == nil && r.action == actionKeep && diff.Different(r.objects) {
		r.action = actionRestore
	}
	return err
}

// overwrites is the refusal to overwrite somebody's credentials unasked; nil where that is not planned, or agreed to. Those of a
// user that is yet to be made are not in the Secret that is there.
func (r *run) overwrites() error {
	differences := ""
	switch {
	case r.OverwriteSecret:
	case r.newSecret == nil && r.user != nil && r.user.NewKeys && r.secret.Exists:
		differences = "it would hold the new user's keys"
	case r.newSecret != nil && r.newSecret.Action == credentials.SecretOverwrite:
		differences = strings.Join(r.newSecret.Differences, "; ")
	}
	if differences == "" {
		return nil
	}
	return report.Usage(fmt.Sprintf("Secret %s/%s exists and differs: %s", r.secret.Namespace, r.secret.Name, differences),
		"add --overwrite-secret, or leave out the credential flags to use the Secret as it is")
}

// shown is the plan for people and programs.
func (r *run) shown() *engine.Plan {
	out := r.NewPlan()
	out.Context.Version, out.Context.Nodes = r.version, len(r.nodes)
	if r.user != nil {
		for _, s := range r.user.Steps {
			out.Add("CloudStack", s, nil)
		}
	}
	secret := &credentials.SecretPlan{Action: credentials.SecretCreate}
	switch {
	case r.newSecret != nil:
		secret = r.newSecret
	case r.secret.Exists:
		secret.Action = "keep, or overwrite where it differs,"
	}
	out.Add("Secret", fmt.Sprintf("%s %s/%s", secret.Action, r.secret.Namespace, r.secret.Name), nil, secret.Differences...)
	from := ""
	if r.action == actionUpgrade {
		from = " from " + r.release.ChartVersion
	}
	var values []string
	if text, err := yaml.Marshal(r.Values); err == nil && len(r.Values) > 0 {
		values = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	out.Add("Helm", fmt.Sprintf("%s release %s/%s%s: chart %s %s, controller %s", r.action, r.Cluster.Namespace, r.Release, from,
		r.Chart.Source, r.Chart.Version(), r.Chart.AppVersion()), r.Values, values...)
	out.Add("Pods", r.placement, r.objects, diff.Text(r.objects, r.Verbose)...)
	if r.order != nil {
		out.Add("Takeover", "in the place of another provider, which is kept, with no Pods; its Services keep addresses and rules:", nil)
		if r.order.AddTo(out); r.taker == nil {
			out.Add("Services", "what changes of which Service is planned once the credentials are there", nil)
		}
	}
	for i := range r.refused {
		out.Warnings = append(out.Warnings, r.refused[i].String())
	}
	switch {
	case r.SkipTaint:
		out.Add("Nodes", "left as they are (--skip-taint); csccm taint has them initialised later", nil)
	case r.taints == nil:
		out.Add("Nodes", "planned once the credentials are there", nil)
	default:
		r.taints.AddTo(out)
	}
	return out
}

// confirm shows the plan and asks, unless it changes neither cluster nor CloudStack. With --yes, only what a takeover changes is shown.
func (r *run) confirm(ctx context.Context) error {
	if !r.Yes || r.taker != nil && !r.Structured() {
		if err := r.shown().WriteText(r.ErrOut, r.StyleOf(r.ErrOut)); err != nil {
			return err
		}
	}
	nothing := r.newSecret.Action == credentials.SecretKeep && r.action == actionKeep && r.order == nil && !r.pending() && r.caPEM == nil &&
		(r.SkipTaint || len(r.taints.Order) == 0)
	if err := r.consent(ctx); err != nil || r.Yes || nothing {
		return err
	}
	return r.agreed(ctx, "Go on")
}
