// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rollout"
)

// Upgrade brings the release to another version of the chart. Values that were given stay, over the new chart's
// defaults.
func Upgrade(ctx context.Context, e *engine.Env, o Config) error {
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	values := helm.Values(history)
	if o.ResetValues {
		values = nil
	}
	c := &change{was: &history[0], request: helm.ApplyRequest{
		Name: e.Release, Chart: o.Chart, Values: helm.MergeValues(values, o.Values), KubeVersion: e.Cluster.Version,
		Description: "csccm upgrade",
	}}
	if err := c.render(ctx, e); err != nil {
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
	case d == 0 && c.action == actionUpgrade:
		c.action = diff.Update
	}
	return c.carryOut(ctx, e, "upgrade", fmt.Sprintf("chart %s, controller %s", o.Chart.Version(), o.Chart.AppVersion()),
		func(ctx context.Context) (*helm.Release, error) { return e.Helm.Apply(ctx, c.request) })
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
	c := &change{was: &history[0], action: "rollback", manifest: target.Manifest, request: helm.ApplyRequest{Values: target.Values}}
	return c.carryOut(ctx, e, "rollback", fmt.Sprintf("revision %d, chart %s, controller %s", target.Revision, target.ChartVersion, target.AppVersion),
		func(ctx context.Context) (*helm.Release, error) {
			return e.Helm.Rollback(ctx, e.Release, target.Revision)
		})
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

// carryOut changes the release by do, and waits until the controller's Pods run and one of them leads. to is the chart,
// or revision and chart, and its controller.
func (c *change) carryOut(
	ctx context.Context, e *engine.Env, command, to string, do func(context.Context) (*helm.Release, error),
) error {
	if err := c.compare(ctx, e); err != nil {
		return err
	}
	now, what := c.was, fmt.Sprintf("%s release %s/%s", c.action, e.Cluster.Namespace, e.Release)
	plan := e.NewPlan()
	plan.Add("Helm", what+":", c.request.Values,
		fmt.Sprintf("from  revision %d, chart %s, controller %s", c.was.Revision, c.was.ChartVersion, c.was.AppVersion), "to    "+to)
	plan.Add("Objects", diff.Summary(c.objects), c.objects, diff.Text(c.objects, e.Verbose)...)
	plan.Warnings = c.warnings
	var steps []engine.Step
	if c.action != actionKeep {
		steps = []engine.Step{
			{Name: "Helm release", Do: func(ctx context.Context, note engine.Note) (err error) {
				e.Progress.Step("Helm release %s/%s: %s", e.Cluster.Namespace, e.Release, to)
				if now, err = do(ctx); err != nil {
					return e.Cluster.Explain(err)
				}
				note("revision %d after %d, chart %s after %s", now.Revision, c.was.Revision, now.ChartVersion, c.was.ChartVersion)
				e.Progress.Done("revision %d, chart %s", now.Revision, now.ChartVersion)
				return nil
			}},
			{Name: "rollout", Do: func(ctx context.Context, _ engine.Note) error {
				return report.Remedied(rollout.Wait(ctx, e), fmt.Sprintf("remove the cause and wait with csccm status, or go back with csccm rollback %d", c.was.Revision))
			}},
			{Name: "leader", Do: func(ctx context.Context, _ engine.Note) error {
				env := &check.Env{Cluster: e.Cluster, Setup: check.Setup{Namespace: e.Cluster.Namespace, Release: e.Release}, Clock: e.Clock}
				open, err := check.AwaitLeader(ctx, env, check.Run, nil, e.Progress)
				if err == nil && open != nil {
					err = &report.Error{What: "the new Pods run, but none of them leads: " + open.Message, Fix: open.Remedy, Code: report.ExitTimeout}
				}
				return err
			}},
		}
	}
	return e.Run(ctx, engine.Operation{
		Name: command, What: what, Question: prompt.Question{Message: "Go on"}, Plan: plan, Steps: steps,
		Done: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "release %s/%s revision %d runs: chart %s, controller %s\nCheck it:  csccm doctor\nGo back:   csccm rollback %d\n",
				e.Cluster.Namespace, e.Release, now.Revision, now.ChartVersion, now.AppVersion, c.was.Revision)
			return err
		},
	})
}
