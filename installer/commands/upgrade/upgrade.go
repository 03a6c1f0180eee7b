// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade brings an installed release to another version of the chart,
// and back. Values that were given stay, over the new chart's defaults.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// Options of an upgrade.
type Options struct {
	Chart          *helm.Chart
	Values         map[string]any // over those of the release
	ResetValues    bool           // forget the release's values
	AllowDowngrade bool
	KubeVersion    string // of the cluster
}

// change is what an upgrade or a rollback would do with the release.
type change struct {
	*engine.Env
	action   string // upgrade, downgrade, change, keep, restore, rollback
	was      *helm.Release
	to       string // the chart, or revision and chart, and its controller
	values   map[string]any
	manifest string
	tenants  []tenants.Refusal // what the policy for tenants refuses
	objects  []diff.Change
	now      *helm.Release // as it is after the steps
}

// Upgrade brings the release to a chart.
func Upgrade(ctx context.Context, e *engine.Env, o Options) error {
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	c, err := newChange(ctx, e, o, history)
	if err != nil {
		return err
	}
	r := c.was
	switch {
	case c.action == "downgrade" && !o.AllowDowngrade:
		return report.Usage(fmt.Sprintf("chart %s is older than %s, which is installed", o.Chart.Version(), r.ChartVersion),
			"add --allow-downgrade, or go back to a revision that worked with csccm rollback")
	case c.action != diff.Keep:
		if c.objects, err = e.Changes(ctx, r.Manifest, c.manifest); err != nil {
			return err
		}
		return c.run(ctx, "upgrade", c.helmRelease("", func(ctx context.Context) (*helm.Release, error) {
			return e.Helm.Apply(ctx, helm.ApplyRequest{Name: e.Release, Chart: o.Chart, Values: c.values, Description: "csccm upgrade"})
		}))
	}
	// Bring back what the release says. That makes no revision.
	if c.objects, err = e.Drift(ctx, r.Manifest); err != nil {
		return err
	}
	if !diff.Different(c.objects) {
		return c.run(ctx, "upgrade")
	}
	c.action = "restore"
	return c.run(ctx, "upgrade", engine.Step{Name: "objects", Do: func(ctx context.Context, note engine.Note) error {
		note("%s", diff.Summary(c.objects))
		return e.Restore(ctx, r.Manifest, c.objects)
	}})
}

// run carries steps out, and waits until the controller's Pods run and one of them leads. Without steps there is nothing to do.
func (c *change) run(ctx context.Context, command string, steps ...engine.Step) error {
	c.now = c.was
	if len(steps) > 0 {
		steps = append(steps, engine.Step{Name: "rollout", Do: c.rollout}, engine.Step{Name: "leader", Do: c.awaitLeader})
	}
	what := fmt.Sprintf("%s release %s/%s", c.action, c.Cluster.Namespace, c.Release)
	plan := c.NewPlan()
	plan.Add("Helm", what+":", c.values,
		fmt.Sprintf("from  revision %d, chart %s, controller %s", c.was.Revision, c.was.ChartVersion, c.was.AppVersion), "to    "+c.to)
	plan.Add("Objects", diff.Summary(c.objects), c.objects, diff.Text(c.objects, c.Verbose)...)
	for i := range c.tenants {
		plan.Warnings = append(plan.Warnings, c.tenants[i].String())
	}
	return c.Run(ctx, engine.Operation{
		Name: command, What: what, Question: prompt.Question{Message: "Go on"}, Plan: plan, Steps: steps,
		Done: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "release %s/%s revision %d runs: chart %s, controller %s\nCheck it:  csccm doctor\nGo back:   csccm rollback %d\n",
				c.Cluster.Namespace, c.Release, c.now.Revision, c.now.ChartVersion, c.now.AppVersion, c.was.Revision)
			return err
		},
	})
}

// release is the step that changes the release.
func (c *change) helmRelease(how string, do func(context.Context) (*helm.Release, error)) engine.Step {
	return engine.Step{Name: "Helm release", Do: func(ctx context.Context, note engine.Note) error {
		c.Progress.Step("Helm release %s/%s%s", c.Cluster.Namespace, c.Release, how)
		next, err := do(ctx)
		if err != nil {
			return c.Cluster.Explain(err)
		}
		note("revision %d after %d, chart %s after %s", next.Revision, c.was.Revision, next.ChartVersion, c.was.ChartVersion)
		c.Progress.Done("revision %d, chart %s", next.Revision, next.ChartVersion)
		c.now = next
		return nil
	}}
}

func (c *change) rollout(ctx context.Context, _ engine.Note) error {
	err := c.Rollout(ctx)
	if ctx.Err() != nil {
		return err
	}
	return report.Remedied(err, fmt.Sprintf("remove the cause and wait with csccm status, or go back with csccm rollback %d", c.was.Revision))
}

func (c *change) awaitLeader(ctx context.Context, _ engine.Note) error {
	env := &check.Env{Cluster: c.Cluster, Setup: check.Setup{Namespace: c.Cluster.Namespace, Release: c.Release}, Clock: c.Clock}
	open, err := check.AwaitLeader(ctx, env, check.Run, nil, c.Progress)
	if err == nil && open != nil {
		err = &report.Error{What: "the new Pods run, but none of them leads: " + open.Message, Fix: open.Remedy, Code: report.ExitTimeout}
	}
	return err
}

func newChange(ctx context.Context, e *engine.Env, o Options, history []helm.Release) (*change, error) {
	r, was := &history[0], helm.Values(history)
	if o.ResetValues {
		was = nil
	}
	c := &change{
		Env: e, was: r, values: helm.MergeValues(was, o.Values),
		to: fmt.Sprintf("chart %s, controller %s", o.Chart.Version(), o.Chart.AppVersion()),
	}
	var err error
	if c.manifest, err = e.Render(ctx, helm.ApplyRequest{Name: e.Release, Chart: o.Chart, Values: c.values, KubeVersion: o.KubeVersion}); err != nil {
		return nil, err
	}
	// CloudStack is not asked about addresses: check TEN-002 of csccm doctor is.
	if c.tenants, err = tenants.Decide(ctx, e, c.manifest, nil); err != nil {
		return nil, err
	}
	from, ferr := semver.NewVersion(r.ChartVersion)
	to, err := semver.NewVersion(o.Chart.Version())
	if err = errors.Join(ferr, err); err != nil {
		return nil, fmt.Errorf("chart %s after %s: %w", o.Chart.Version(), r.ChartVersion, err)
	}
	switch d := to.Compare(from); {
	case d < 0:
		c.action = "downgrade"
	case d > 0:
		c.action = "upgrade"
	case r.UpToDate(o.Chart, c.values, c.manifest):
		c.action = diff.Keep
	default:
		c.action = diff.Update
	}
	return c, nil
}
