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
	"slices"
	"strings"

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
	command string
	action  string // upgrade, downgrade, change, keep, restore, rollback
	was     *helm.Release
	to      string // the chart, or revision and chart, and its controller
	values  map[string]any
	objects []diff.Change
	refused []tenants.Refusal                                // what the policy for tenants refuses
	do      func(ctx context.Context) (*helm.Release, error) // has Helm make it
}

// Upgrade brings the release to a chart.
func Upgrade(ctx context.Context, e *engine.Env, o Options) error {
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	values := helm.Values(history)
	if o.ResetValues {
		values = nil
	}
	c := &change{
		Env: e, command: "upgrade", was: &history[0], values: helm.MergeValues(values, o.Values),
		to: fmt.Sprintf("chart %s, controller %s", o.Chart.Version(), o.Chart.AppVersion()),
	}
	request := helm.ApplyRequest{Name: e.Release, Chart: o.Chart, Values: c.values, KubeVersion: o.KubeVersion, Description: "csccm upgrade"}
	manifest, err := e.Render(ctx, request)
	if err != nil {
		return err
	}
	if c.refused, err = tenants.Decide(ctx, e, manifest); err != nil {
		return err
	}
	from, ferr := semver.NewVersion(c.was.ChartVersion)
	to, err := semver.NewVersion(o.Chart.Version())
	if err = errors.Join(ferr, err); err != nil {
		return fmt.Errorf("chart %s after %s: %w", o.Chart.Version(), c.was.ChartVersion, err)
	}
	switch d := to.Compare(from); {
	case d < 0 && !o.AllowDowngrade:
		return report.Usage(fmt.Sprintf("chart %s is older than %s, which is installed", o.Chart.Version(), c.was.ChartVersion),
			"add --allow-downgrade, or go back to a revision that worked with csccm rollback")
	case d < 0:
		c.action = "downgrade"
	case d > 0:
		c.action = "upgrade"
	case c.was.UpToDate(o.Chart, c.values, manifest):
		c.action = diff.Keep
	default:
		c.action = diff.Update
	}
	if c.objects, err = e.Changes(ctx, c.was.Manifest, manifest); err != nil {
		return err
	}
	if c.action == diff.Keep && diff.Different(c.objects) { // somebody has changed or deleted them
		c.action = "restore"
	}
	c.do = func(ctx context.Context) (*helm.Release, error) { return e.Helm.Apply(ctx, request) }
	return c.run(ctx)
}

// Rollback makes a new revision with the content of an earlier one; revision 0
// is the newest that worked before the latest.
func Rollback(ctx context.Context, e *engine.Env, revision int) error {
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	target, err := pick(history, revision)
	if err != nil {
		return err
	}
	c := &change{
		Env: e, command: "rollback", action: "rollback", was: &history[0], values: target.Values,
		to: fmt.Sprintf("revision %d, chart %s, controller %s", target.Revision, target.ChartVersion, target.AppVersion),
		do: func(ctx context.Context) (*helm.Release, error) {
			return e.Helm.Rollback(ctx, e.Release, target.Revision)
		},
	}
	if c.objects, err = e.Changes(ctx, c.was.Manifest, target.Manifest); err != nil {
		return err
	}
	return c.run(ctx)
}

// pick finds the revision to go back to; history is newest first.
func pick(history []helm.Release, revision int) (*helm.Release, error) {
	var known []string
	for i := range history {
		known = append(known, fmt.Sprintf("%d (%s, chart %s)", history[i].Revision, history[i].Status, history[i].ChartVersion))
	}
	i := slices.IndexFunc(history, func(r helm.Release) bool {
		return r.Revision == revision || revision == 0 && r.Revision != history[0].Revision && (r.Status == "superseded" || r.Deployed())
	})
	switch {
	case i >= 0:
		return &history[i], nil
	case revision == 0:
		return nil, report.Usage("there is no earlier revision that worked", "revisions: "+strings.Join(known, ", ")+"; csccm uninstall takes the controller away")
	}
	return nil, report.Usage(fmt.Sprintf("there is no revision %d", revision), "name one of "+strings.Join(known, ", "))
}

// run changes the release, and waits until the controller's Pods run and one of them leads.
func (c *change) run(ctx context.Context) error {
	now, what := c.was, fmt.Sprintf("%s release %s/%s", c.action, c.Cluster.Namespace, c.Release)
	plan := c.NewPlan()
	plan.Add("Helm", what+":", c.values,
		fmt.Sprintf("from  revision %d, chart %s, controller %s", c.was.Revision, c.was.ChartVersion, c.was.AppVersion), "to    "+c.to)
	plan.Add("Objects", diff.Summary(c.objects), c.objects, diff.Text(c.objects, c.Verbose)...)
	for i := range c.refused {
		plan.Warnings = append(plan.Warnings, c.refused[i].String())
	}
	var steps []engine.Step
	if c.action != diff.Keep {
		steps = []engine.Step{
			{Name: "Helm release", Do: func(ctx context.Context, note engine.Note) (err error) {
				c.Progress.Step("Helm release %s/%s: %s", c.Cluster.Namespace, c.Release, c.to)
				if now, err = c.do(ctx); err != nil {
					return c.Cluster.Explain(err)
				}
				note("revision %d after %d, chart %s after %s", now.Revision, c.was.Revision, now.ChartVersion, c.was.ChartVersion)
				c.Progress.Done("revision %d, chart %s", now.Revision, now.ChartVersion)
				return nil
			}},
			{Name: "rollout", Do: func(ctx context.Context, _ engine.Note) error {
				err := c.Rollout(ctx)
				if ctx.Err() != nil {
					return err
				}
				return report.Remedied(err, fmt.Sprintf("remove the cause and wait with csccm status, or go back with csccm rollback %d", c.was.Revision))
			}},
			{Name: "leader", Do: func(ctx context.Context, _ engine.Note) error {
				env := &check.Env{Cluster: c.Cluster, Setup: check.Setup{Namespace: c.Cluster.Namespace, Release: c.Release}, Clock: c.Clock}
				open, err := check.AwaitLeader(ctx, env, check.Run, nil, c.Progress)
				if err == nil && open != nil {
					err = &report.Error{What: "the new Pods run, but none of them leads: " + open.Message, Fix: open.Remedy, Code: report.ExitTimeout}
				}
				return err
			}},
		}
	}
	return c.Run(ctx, engine.Operation{
		Name: c.command, What: what, Question: prompt.Question{Message: "Go on"}, Plan: plan, Steps: steps,
		Done: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "release %s/%s revision %d runs: chart %s, controller %s\nCheck it:  csccm doctor\nGo back:   csccm rollback %d\n",
				c.Cluster.Namespace, c.Release, now.Revision, now.ChartVersion, now.AppVersion, c.was.Revision)
			return err
		},
	})
}
