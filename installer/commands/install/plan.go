// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/node"
)

// detect reads the cluster, and sets the chart values that follow from it. It changes nothing in the cluster.
func (r *run) detect(ctx context.Context) error {
	r.Progress.Step("Looking at the cluster")
	history, err := r.History(ctx)
	if err != nil {
		return err
	}

	r.back = wayBack(history)
	if len(history) > 0 {
		r.was, r.previousValues = &history[0], helm.Values(history)
	}

	kube, namespace := r.Cluster.Kube, r.Cluster.Namespace
	if r.decided, err = decideFor(ctx, r.Cluster, r.chartValues()); err == nil {
		r.secret, err = access.SecretOfValues(ctx, r.Cluster, r.chartValues())
	}

	if err == nil {
		r.created, err = credentials.ReadCreated(ctx, kube, namespace)
	}

	if err == nil {
		r.controllers, err = family.Find(ctx, kube, r.Clock, r.Release, namespace)
	}

	if err != nil {
		return err
	}

	r.nodes = r.decided.nodes
	r.Values = helm.MergeValues(r.decided.values, r.Values)
	for _, p := range r.controllers.Predecessors {
		r.Progress.Info("found %s, another provider for CloudStack (%s, image %s)", &p, p.Family, p.Image)
	}

	on := ""
	if r.decided.distribution != cluster.Unknown {
		on = string(r.decided.distribution) + ", "
	}

	r.Progress.Done("Kubernetes %s, %s%s", r.Cluster.Version, on, report.Count(len(r.nodes), "node"))
	return nil
}

// decided are the chart values that follow from the cluster.
type decided struct {
	nodes        []corev1.Node
	distribution cluster.Distribution
	values       map[string]any
	placement    string // where the controller's Pods run, for messages
}

// names returns the names of the values, sorted.
func (d *decided) names() []string { return slices.Sorted(maps.Keys(d.values)) }

// decide chooses the chart values that are not given: whether the controller adopts nodes without the taint, where its
// Pods run, and how many. Pods run only on control plane nodes, because the kubelet of a Pod's node may read the keys.
func decide(nodes []corev1.Node, distribution cluster.Distribution, given map[string]any) *decided {
	d := &decided{nodes: nodes, distribution: distribution, values: map[string]any{}}
	set := func(name string, value any) {
		if _, set := given[name]; !set {
			d.values[name] = value
		}
	}

	if distribution == cluster.CKS {
		// CKS has no setting for kubelet arguments, so the nodes that it adds join without the taint.
		set("adoptNodes", true)
	}

	n := 0 // control plane nodes
	for _, candidate := range nodes {
		if node.ControlPlane(&candidate) {
			n++
		}
	}

	switch {
	case given["affinity"] != nil || given["controlPlaneOnly"] != nil || given["kind"] == "DaemonSet":
		d.placement = "as the chart's values say"
	case n == 0:
		d.placement = "on any node, whose kubelet may then read the keys: no node has the label of a control plane node"
		set("controlPlaneOnly", false)
	case n == 1:
		d.placement = "on the one control plane node"
		set("replicaCount", 1)
	default:
		d.placement = "on control plane nodes only"
	}

	return d
}

// decideFor reads the nodes and calls decide.
func decideFor(ctx context.Context, c *cluster.Cluster, given map[string]any) (*decided, error) {
	var err error
	nodes, distribution := cluster.Nodes(ctx, &err, c.Kube), cluster.Unknown
	if err == nil {
		distribution, _, err = c.Distribution(ctx, nodes)
	}

	return decide(nodes, distribution, given), err
}

// Manifest returns the manifest that an install would apply. It warns about another provider, because the values that
// keep what its nodes have need CloudStack.
func Manifest(ctx context.Context, e *engine.Env, chart *helm.Chart, given map[string]any) (string, error) {
	history, err := e.History(ctx)
	if err != nil {
		return "", err
	}

	given = helm.MergeValues(helm.Values(history), given)
	d, err := decideFor(ctx, e.Cluster, given)
	if err != nil {
		return "", err
	}

	old, err := family.Replaceable(ctx, e.Cluster.Kube)
	if err != nil {
		return "", err
	}

	for _, p := range old {
		if !p.Replaced {
			e.Progress.Warn("%s: csccm install, which replaces it, may set more values, which keep the nodes' labels "+
				"and provider IDs as they are; csccm install --dry-run shows them", &p)
		}
	}

	e.Progress.Info("the controller's Pods run %s (chart value controlPlaneOnly)", d.placement)
	manifest, err := e.Render(ctx, helm.ApplyRequest{
		Name:        e.Release,
		Chart:       chart,
		Values:      helm.MergeValues(d.values, given),
		KubeVersion: e.Cluster.Version,
	})
	if err == nil {
		_, _, err = check.PolicyOf(family.ArgumentsOfChart(manifest))
	}

	return manifest, err
}

// change is what an install, an upgrade or a rollback does with the Helm release.
type change struct {
	was      *helm.Release // current release; nil if there is none
	request  helm.ApplyRequest
	manifest string
	action   string
	objects  []diff.Change  // changes of the chart's objects, from dry runs on the API server; nil without dry runs
	warnings []string       // Services that the tenancy policy refuses
	back     string         // command that goes back to the newest revision that worked
	given    map[string]any // chart values on the command line
}

// The actions.
const (
	actionInstall = "install"
	actionUpgrade = "upgrade"
	actionKeep    = "keep"    // the release is up to date
	actionRestore = "restore" // the release is up to date, but its objects were changed or deleted
)

// render renders the chart and sets the action.
func (c *change) render(ctx context.Context, e *engine.Env) (err error) {
	c.manifest, err = e.Render(ctx, c.request)
	switch {
	case err != nil:
	case c.was == nil:
		c.action = actionInstall
	case c.was.UpToDate(c.request.Chart, c.request.Values, c.manifest):
		c.action = actionKeep
	default:
		c.action = actionUpgrade
	}

	return err
}

// compare sets the changes of the chart's objects, from dry runs on the API server, and warns about Services that the
// tenancy policy of the chart refuses.
func (c *change) compare(ctx context.Context, e *engine.Env) (err error) {
	old := ""
	if c.was != nil {
		old = c.was.Manifest
	}

	if c.objects, err = e.Changes(ctx, old, c.manifest); err != nil {
		return err
	}

	if c.action == actionKeep && diff.Different(c.objects) {
		c.action = actionRestore
	}

	if c.request.Chart == nil { // a rollback
		return nil
	}

	c.warnings, err = refused(ctx, e, c.manifest)
	return err
}

// refused warns about each Service that the tenancy policy of a rendered chart refuses, and returns the warnings. It
// does not check addresses in CloudStack; check TEN-002 does. It reads the labels of namespaces only if the policy
// needs them.
func refused(ctx context.Context, e *engine.Env, manifest string) (warnings []string, _ error) {
	p, set, err := check.PolicyOf(family.ArgumentsOfChart(manifest))
	if err != nil || !set {
		return nil, err
	}

	f := &check.Facts{Services: cluster.Services(ctx, &err, e.Cluster.Kube)}
	if err == nil && p.NeedsLabels() {
		f.Namespaces, err = cluster.NamespaceLabels(ctx, e.Cluster.Kube)
	}

	if err != nil {
		return nil, err
	}

	for _, r := range check.Refusals(p, f) {
		warnings = append(warnings, r.String())
		e.Progress.Warn("%s", &r)
	}

	return warnings, nil
}

// planRelease makes the request to Helm, renders the chart and sets the action.
func (r *run) planRelease(ctx context.Context) error {
	if r.caPEM != nil {
		r.setDefault("caBundle", map[string]any{"configMapName": access.CAConfigMap})
	}

	r.request = helm.ApplyRequest{
		Name:        r.Release,
		Chart:       r.Chart,
		Values:      r.chartValues(),
		KubeVersion: r.Cluster.Version,
		Description: "csccm install",
		Decided:     r.decided.names(),
	}

	return r.render(ctx, r.Env)
}

// planOrder plans which controllers are replaced, and in which order. It reads only the cluster, so that problems are
// found before anything is created in CloudStack.
func (r *run) planOrder() error {
	controllers := *r.controllers
	controllers.Own.FromChart(r.manifest)
	if port := controllers.Own.Port; port != "" {
		if pod := controllers.OnPort(port); pod != "" {
			return report.Usage(
				"choose another one with --set securePort=PORT",
				"port %s of the nodes, on which the controller would listen, is Pod %s's", port, pod,
			)
		}
	}

	if len(r.controllers.Predecessors) == 0 {
		return nil
	}

	r.order = takeover.PlanOrder(&controllers)
	if r.order.Problem != nil {
		return r.order.Problem
	}

	if r.pending() {
		r.Progress.Info("the changes to Services are planned with the new user's keys, and need consent then; " +
			"without it, the user in CloudStack is kept for the next run")
	}

	return nil
}

// planTakeover compares the current load balancer of each Service with what the new controller would change, which
// needs the keys. It also sets the chart values that keep the form of labels and provider IDs that nodes have.
func (r *run) planTakeover(ctx context.Context) error {
	if r.order == nil || r.order.Problem != nil {
		return nil //nolint:nilerr // the problem is an error after the plan is shown
	}

	r.Progress.Step("What the other provider has made")
	t := &takeover.Taker{
		Env:     r.Env,
		Cloud:   r.cloud(),
		Options: takeover.Options{Accept: r.Accept, Pin: r.Pin, Adopt: r.Adopt, ClusterID: r.config.ClusterID},
	}

	found, err := t.Detect(ctx)
	if err == nil {
		found.Own.FromChart(r.manifest)
		err = t.MakePlan(ctx, found)
	}

	if err != nil {
		return err
	}

	r.order, r.taker = t.Plan, t
	for name, value := range t.Plan.Values {
		r.setDefault(name, value)
	}

	if err := r.planRelease(ctx); err != nil {
		return err
	}

	r.Progress.Done("%s", report.Count(len(t.Plan.Services), "Service"))
	return nil
}

// consent returns an error if the plan cannot be carried out, and asks the operator to agree to the changes of the
// takeover.
func (r *run) consent(ctx context.Context) error {
	if r.invalid != nil || r.taker == nil {
		return r.invalid
	}

	err := r.taker.Consent(ctx)
	if err == nil {
		err = r.taker.AskAddresses(ctx)
	}

	r.Accept, r.Pin, r.Adopt = r.taker.Accept, r.taker.Pin, r.taker.Adopt // for FlagLine
	return err
}

// planNodes plans the change of the Secret, and which existing nodes the controller will initialise. It needs the
// credentials, and does nothing without them.
func (r *run) planNodes(ctx context.Context) (err error) {
	if r.api == nil {
		return nil
	}

	if r.newSecret, err = access.PlanSecret(r.secret, r.config); err != nil {
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

// cloud returns access to CloudStack with the controller's keys; call it after verify.
func (r *run) cloud() *access.Cloud { return &access.Cloud{Client: r.api, Config: r.config} }

// taintPlan reads nodes and VMs, and plans which nodes to taint.
func (r *run) taintPlan(ctx context.Context) (*taint.Plan, error) {
	var err error
	nodes := cluster.Nodes(ctx, &err, r.Cluster.Kube)
	if err != nil {
		return nil, err
	}

	vms, err := r.cloud().Inventory().VMs(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}

	text, _ := r.chartValues()["instanceTypeFormat"].(string)
	form, err := node.ParseLabelForm(text)
	return taint.NewPlan(taint.Facts{Nodes: nodes, VMs: vms, Region: r.config.Region, LabelForm: form}), err
}

// diffObjects sends every object of the plan to the API server as a dry run, so that an object that the API server
// refuses ends the install before the first write.
func (r *run) diffObjects(ctx context.Context) error {
	if r.newSecret != nil && r.Diff != nil {
		if err := r.newSecret.DryRun(ctx, r.Cluster.Kube); err != nil {
			return err
		}
	}

	return r.compare(ctx, r.Env)
}

// overwrites returns an error if the install would overwrite other credentials in the Secret without
// --overwrite-secret. New keys of a user always differ from those in the Secret.
func (r *run) overwrites() error {
	differences := ""
	switch {
	case r.OverwriteSecret:
	case r.newSecret == nil && r.user != nil && r.user.NewKeys && r.secret.Exists:
		differences = "it would get the new user's keys"
	case r.newSecret != nil && r.newSecret.Action == access.SecretOverwrite:
		differences = strings.Join(r.newSecret.Differences, "; ")
	}

	if differences == "" {
		return nil
	}

	return report.Usage(
		"add --overwrite-secret, or leave out the credential flags to use the Secret as it is",
		"Secret %s exists and differs: %s", r.secret, differences,
	)
}

// shown returns the plan for output as text or structured.
func (r *run) shown() *engine.Plan {
	out := r.NewPlan()
	out.Context.Version, out.Context.Nodes = r.Cluster.Version, len(r.nodes)
	if r.user != nil {
		for _, s := range r.user.Steps {
			out.Add("CloudStack", s, nil)
		}
	}

	secret := &access.SecretPlan{Action: access.SecretCreate}
	switch {
	case r.newSecret != nil:
		secret = r.newSecret
	case r.secret.Exists:
		secret.Action = "keep, or overwrite where it differs,"
	}

	out.Add("Secret", fmt.Sprintf("%s %s", secret.Action, r.secret), nil, secret.Differences...)

	from := ""
	if r.action == actionUpgrade {
		from = " from " + r.was.ChartVersion
	}

	var values []string
	if text, err := yaml.Marshal(r.Values); err == nil && len(r.Values) > 0 {
		values = strings.Split(strings.TrimSpace(string(text)), "\n")
	}

	out.Add(
		"Helm",
		fmt.Sprintf(
			"%s release %s/%s%s: chart %s %s, controller %s",
			r.action, r.Cluster.Namespace, r.Release, from, r.Chart.Source, r.Chart.Version(), r.Chart.AppVersion(),
		),
		r.Values, values...,
	)
	out.Add("Pods", r.decided.placement, r.objects, diff.Text(r.objects, r.Verbose)...)

	if r.order != nil {
		out.Add(
			"Takeover",
			"replacing another provider, which is kept without Pods; its Services keep addresses and rules:",
			nil,
		)
		if r.order.AddTo(out); r.taker == nil {
			out.Add("Services", "the changes to Services are planned once the credentials exist", nil)
		}
	}

	out.Warnings = r.warnings
	switch {
	case r.SkipTaint:
		out.Add("Nodes", "left as they are (--skip-taint); csccm taint has them initialised later", nil)
	case r.taints == nil:
		out.Add("Nodes", "planned once the credentials exist", nil)
	default:
		r.taints.AddTo(out)
	}

	return out
}
