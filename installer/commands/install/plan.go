// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

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
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// plan is what an install decides before it changes the cluster; show is what people and programs see of it.
type plan struct {
	chart    action
	values   map[string]any // of the release, with those that it keeps
	manifest string
	secret   *credentials.SecretPlan // nil as long as the controller's credentials do not exist
	takeover *takeover.Plan          // nil where no other provider is there. Its Services are compared once there are credentials
	taker    *takeover.Taker         // of takeover, with its Services; nil before
	tenants  []tenants.Refusal       // what the policy for tenants refuses
	nodes    *taint.Plan             // nil as long as the controller's credentials do not exist
	objects  []diff.Change           // what the API server says would become of the chart's objects; nil when it was not asked
	warned   map[string]bool         // warnings of checks that were shown
}

// action is what happens to the Helm release.
type action string

const (
	actionInstall action = "install"
	actionUpgrade action = "upgrade"
	actionKeep    action = "keep"
	// actionRestore is for a release that is what is wanted, and whose objects somebody has changed or deleted.
	actionRestore action = "restore"
)

// newPlan decides what is to be done with the release; it changes nothing.
func newPlan(ctx context.Context, e *engine.Env, c *Config, f *facts, a *access) (*plan, error) {
	if a.caPEM != nil {
		c.setDefault(f, "caBundle", map[string]any{"configMapName": credentials.CAConfigMap})
	}
	p := &plan{warned: map[string]bool{}}
	return p, p.render(ctx, e, c, f)
}

func (p *plan) render(ctx context.Context, e *engine.Env, c *Config, f *facts) (err error) {
	p.values = c.values(f)
	p.manifest, err = e.Render(ctx, helm.ApplyRequest{Name: e.Release, Chart: c.Chart, Values: p.values, KubeVersion: f.version})
	switch {
	case err != nil:
	case f.release == nil:
		p.chart = actionInstall
	case f.release.UpToDate(c.Chart, p.values, p.manifest):
		p.chart = actionKeep
	default:
		p.chart = actionUpgrade
	}
	return err
}

// planOrder says, by the cluster alone, who would be replaced in which order; an error is what
// keeps it from happening, known before anything is made in CloudStack.
func (p *plan) planOrder(e *engine.Env, f *facts, a *access) error {
	if len(f.predecessors()) == 0 {
		return nil
	}
	controllers := *f.controllers
	controllers.Own.Lease = family.LeaseOfChart(p.manifest)
	p.takeover = takeover.PlanOrder(&controllers)
	if p.takeover.Problem != nil {
		return p.takeover.Problem
	}
	if a.pending() {
		e.Progress.Info("what changes of which Service is seen with the new user's keys and asked then; without consent the user in CloudStack stays, for the next run")
	}
	return nil
}

// planTakeover compares, now that there are keys, the current state of each Service with what the new
// controller would make of it. Chart values that keep the nodes' forms join those of the operator.
func (p *plan) planTakeover(ctx context.Context, e *engine.Env, c *Config, f *facts, a *access) error {
	if p.takeover == nil || p.takeover.Problem != nil {
		return nil //nolint:nilerr // consent returns the problem, after the plan was shown
	}
	e.Progress.Step("What the other provider has made")
	t := &takeover.Taker{Env: e, API: a.api, Config: a.config, Options: takeover.Options{Accept: c.Accept, Pin: c.Pin, ClusterID: c.ClusterID}}
	found, err := t.Detect(ctx)
	if err == nil {
		found.Own.Lease = family.LeaseOfChart(p.manifest)
		err = t.MakePlan(ctx, found)
	}
	if err != nil {
		return e.Cluster.Explain(err)
	}
	p.takeover, p.taker = t.Plan, t
	rules := 0
	for i := range t.Plan.Services {
		rules += len(t.Plan.Services[i].Rules)
	}
	for name, value := range t.Plan.Values {
		c.setDefault(f, name, value)
	}
	if err := p.render(ctx, e, c, f); err != nil {
		return err
	}
	e.Progress.Done("%s, %s", english.Plural(len(t.Plan.Services), "Service", ""), english.Plural(rules, "rule", ""))
	return nil
}

// consent has somebody agree to what the takeover changes.
func (p *plan) consent(ctx context.Context, c *Config) error {
	if p.taker == nil {
		return nil
	}
	err := p.taker.Consent(ctx)
	c.Accept, c.Pin = p.taker.Accept, p.taker.Pin // for the flag line
	return err
}

// planTenants names the Services that the chart's policy for tenants refuses. Without keys CloudStack's addresses are not known.
func (p *plan) planTenants(ctx context.Context, e *engine.Env, a *access) (err error) {
	var addresses func([]corev1.Service) (map[string]tenants.Address, error)
	if a.api != nil {
		addresses = func(services []corev1.Service) (map[string]tenants.Address, error) {
			ids, err := cluster.Identity{Config: a.config.ClusterID, Former: a.config.FormerClusterIDs}.Resolve(ctx, e.Cluster.Kube)
			if err != nil {
				return nil, e.Cluster.Explain(err)
			}
			addresses, err := a.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: a.config.ProjectID})
			if err != nil {
				return nil, fmt.Errorf("list public addresses: %w", err)
			}
			rules, err := a.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: a.config.ProjectID})
			if err != nil {
				return nil, fmt.Errorf("list load balancer rules: %w", err)
			}
			return tenants.Addresses(addresses, rules, services, ids), nil
		}
	}
	p.tenants, err = tenants.Decide(ctx, e, p.manifest, addresses)
	return err
}

// planNodes says what happens to the Secret, and which existing nodes are to be initialised, now that the credentials are known.
func (p *plan) planNodes(ctx context.Context, e *engine.Env, c *Config, f *facts, a *access) (err error) {
	if p.secret, err = credentials.PlanSecret(f.secret, a.config); err != nil {
		return err
	}
	if p.nodes, err = taintPlan(ctx, e, c, f, a); err != nil || c.SkipTaint {
		return err
	}
	for _, problem := range p.nodes.Problems {
		e.Progress.Warn("%s", problem.Text)
		e.Progress.Info("fix: %s", problem.Remedy)
	}
	return p.nodes.Blocked()
}

// taintPlan reads nodes and VMs as they are now.
func taintPlan(ctx context.Context, e *engine.Env, c *Config, f *facts, a *access) (*taint.Plan, error) {
	var err error
	nodes := cluster.List(ctx, &err, e.Cluster.Kube.CoreV1().Nodes().List).Items
	if err != nil {
		return nil, e.Cluster.Explain(err)
	}
	inv := inventory.New(a.api, inventory.Options{ProjectID: a.config.ProjectID, Zone: a.config.Zone, NodeVMs: a.config.NodeVMs, Clock: e.Clock})
	vms, err := inv.VMs(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("listing virtual machines: %w", err)
	}
	text, _ := c.values(f)["instanceTypeFormat"].(string)
	form, err := node.ParseLabelForm(text)
	if err != nil {
		return nil, err
	}
	return taint.NewPlan(taint.Facts{Nodes: nodes, VMs: vms, Region: a.config.Region, LabelForm: form}), nil
}

// diffObjects has the API server judge every object of the plan by dry runs: what it refuses ends the install before the first write.
func (p *plan) diffObjects(ctx context.Context, e *engine.Env, f *facts) (err error) {
	if e.Diff == nil {
		return nil
	}
	old := ""
	if f.release != nil {
		old = f.release.Manifest
	}
	if p.secret != nil {
		if err := p.secret.DryRun(ctx, e.Cluster.Kube); err != nil {
			return e.Cluster.Explain(err)
		}
	}
	if p.chart != actionKeep {
		p.objects, err = e.Changes(ctx, old, p.manifest)
		return err
	}
	if p.objects, err = e.Drift(ctx, old); err == nil && diff.Different(p.objects) {
		p.chart = actionRestore
	}
	return err
}

// overwrites is the refusal to overwrite somebody's credentials unasked; nil where that is not planned, or agreed to. Those of a
// user that is yet to be made are not in the Secret that is there.
func (p *plan) overwrites(c *Config, f *facts, a *access) error {
	differences := ""
	switch {
	case c.OverwriteSecret:
	case p.secret == nil && a.user != nil && a.user.NewKeys() && f.secret.Exists:
		differences = "it would hold the new user's keys"
	case p.secret != nil && p.secret.Action == credentials.SecretOverwrite:
		differences = strings.Join(p.secret.Differences, "; ")
	}
	if differences == "" {
		return nil
	}
	return report.Usage(fmt.Sprintf("Secret %s/%s exists and differs: %s", f.secret.Namespace, f.secret.Name, differences),
		"add --overwrite-secret, or leave out the credential flags to use the Secret as it is")
}

// show is the plan for people and programs.
func (p *plan) show(e *engine.Env, c *Config, f *facts, a *access) *engine.Plan {
	out := e.NewPlan()
	out.Context.Version, out.Context.Nodes = f.version, len(f.nodes)
	for _, s := range a.done {
		out.Add("CloudStack", "done: "+s, nil)
	}
	if a.user != nil {
		for _, s := range a.user.Steps {
			out.Add("CloudStack", s, nil)
		}
	}
	secret := &credentials.SecretPlan{Action: credentials.SecretCreate}
	switch {
	case p.secret != nil:
		secret = p.secret
	case f.secret.Exists:
		secret.Action = "keep, or overwrite where it differs,"
	}
	out.Add("Secret", fmt.Sprintf("%s %s/%s", secret.Action, f.secret.Namespace, f.secret.Name), nil, secret.Differences...)
	from := ""
	if p.chart == actionUpgrade {
		from = " from " + f.release.ChartVersion
	}
	out.Add("Helm", fmt.Sprintf("%s release %s/%s%s: chart %s %s, controller %s", p.chart, e.Cluster.Namespace, e.Release, from,
		c.Chart.Source, c.Chart.Version(), c.Chart.AppVersion()), c.Values, flatten("", c.Values)...)
	out.Add("Pods", f.placement, p.objects, diff.Text(p.objects, e.Verbose)...)
	if p.takeover != nil {
		out.Add("Takeover", "in the place of another provider, which is kept, with no Pods; its Services keep addresses and rules:", nil)
		if p.takeover.AddTo(out); p.taker == nil {
			out.Add("Services", "what changes of which Service is planned once the credentials are there", nil)
		}
	}
	for i := range p.tenants {
		out.Warnings = append(out.Warnings, p.tenants[i].String())
	}
	switch {
	case c.SkipTaint:
		out.Add("Nodes", "left as they are (--skip-taint); csccm taint has them initialised later", nil)
	case p.nodes == nil:
		out.Add("Nodes", "planned once the credentials are there", nil)
	default:
		p.nodes.AddTo(out)
	}
	return out
}

// flatten shows values as --set writes them.
func flatten(prefix string, values map[string]any) []string {
	var out []string
	for key, v := range values {
		if m, ok := v.(map[string]any); ok {
			out = append(out, flatten(prefix+key+".", m)...)
			continue
		}
		out = append(out, fmt.Sprintf("%s%s=%v", prefix, key, v))
	}
	slices.Sort(out)
	return out
}

// confirm shows the plan and asks. With --yes, only what a takeover changes is shown.
func (p *plan) confirm(ctx context.Context, e *engine.Env, c *Config, f *facts, a *access) error {
	if refusal := p.overwrites(c, f, a); refusal != nil {
		if e.Yes || !e.Interactive { // --yes agrees to the plan, not to the loss of somebody's credentials
			return refusal
		}
		question := fmt.Sprintf("Overwrite Secret %s/%s (%s)", f.secret.Namespace, f.secret.Name, strings.Join(p.secret.Differences, "; "))
		if err := a.agreed(ctx, e, question); err != nil {
			return err
		}
	}
	shown := p.show(e, c, f, a)
	if !e.Yes || p.taker != nil && !e.Structured() { // what changes is shown, agreed to or not
		if err := shown.WriteText(e.ErrOut, e.StyleOf(e.ErrOut)); err != nil {
			return err
		}
	}
	if err := p.consent(ctx, c); err != nil || e.Yes || p.nothingToDo(c, a) {
		return err
	}
	return a.agreed(ctx, e, "Go on")
}

// nothingToDo reports whether the plan changes neither cluster nor CloudStack.
func (p *plan) nothingToDo(c *Config, a *access) bool {
	return p.secret.Action == credentials.SecretKeep && p.chart == actionKeep && p.takeover == nil && !a.pending() && a.caPEM == nil &&
		!diff.Different(p.objects) && (c.SkipTaint || len(p.nodes.Order) == 0)
}
