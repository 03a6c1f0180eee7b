// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// Result is what a finished upgrade or rollback says.
type Result struct {
	SchemaVersion int    `json:"schemaVersion"`
	Action        string `json:"action"`
	Release       string `json:"release"`
	Namespace     string `json:"namespace"`
	Revision      int    `json:"revision"`
	Chart         string `json:"chart"`
	Controller    string `json:"controller"`
}

// Upgrade brings the release to a chart.
func Upgrade(ctx context.Context, e *engine.Env, o Options) error {
	history, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	r := &history[0]
	p, err := newPlan(ctx, e, o, history)
	if err != nil {
		return err
	}
	if p.Action == "downgrade" && !o.AllowDowngrade {
		return report.Usage(fmt.Sprintf("chart %s is older than %s, which is installed", p.To.Chart, p.From.Chart), "add --allow-downgrade, or go back to a revision that worked with csccm rollback")
	}
	if p.Action == diff.Keep {
		return p.restore(ctx, e, r)
	}
	op := p.operation("upgrade", r)
	if p.Objects, err = e.Changes(ctx, r.Manifest, p.manifest); err != nil {
		return err
	}
	op.Steps = p.steps(e, "", func(ctx context.Context) (*helm.Release, error) {
		return e.Helm.Apply(ctx, helm.ApplyRequest{
			Name: e.Release, Chart: o.Chart, Values: p.Values, Description: "csccm upgrade",
		})
	})
	return e.Run(ctx, op)
}

// actionRestore is the action of an upgrade whose chart and values are those of the release, and whose objects somebody has
// changed or deleted.
const actionRestore = "restore"

// restore brings back what the release says. It makes no revision.
func (p *Plan) restore(ctx context.Context, e *engine.Env, r *helm.Release) error {
	var err error
	if p.Objects, err = e.Drift(ctx, r.Manifest); err != nil {
		return err
	}
	if !diff.Different(p.Objects) {
		return e.Run(ctx, p.operation("upgrade", r))
	}
	p.Action = actionRestore
	op := p.operation("upgrade", r)
	op.Steps = append([]engine.Step{{Name: "objects", Do: func(ctx context.Context, note engine.Note) error {
		note("%s", diff.Summary(p.Objects))
		return e.Restore(ctx, r.Manifest, p.Objects)
	}}}, p.rollout(e)...)
	return e.Run(ctx, op)
}

// operation is what upgrade and rollback have in common. r is the release as it is.
func (p *Plan) operation(name string, r *helm.Release) engine.Operation {
	p.after = r
	return engine.Operation{
		Name: name, What: fmt.Sprintf("%s release %s/%s", p.Action, p.Namespace, p.Release), Question: prompt.Question{Message: "Go on"},
		Plan: p, Show: p.print, Result: func() any { return p.result() }, Done: p.done,
	}
}

// steps change the release and wait for the controller's Pods.
func (p *Plan) steps(e *engine.Env, how string, change func(context.Context) (*helm.Release, error)) []engine.Step {
	return append([]engine.Step{
		{Name: "Helm release", Do: func(ctx context.Context, note engine.Note) error {
			e.Progress.Step("Helm release %s/%s%s", p.Namespace, p.Release, how)
			next, err := change(ctx)
			if err != nil {
				return e.Cluster.Explain(err)
			}
			note("revision %d after %d, chart %s after %s", next.Revision, p.From.Revision, next.ChartVersion, p.From.Chart)
			e.Progress.Done("revision %d, chart %s", next.Revision, next.ChartVersion)
			p.after = next
			return nil
		}},
	}, p.rollout(e)...)
}

// rollout waits until the controller's Pods run and one of them leads.
func (p *Plan) rollout(e *engine.Env) []engine.Step {
	return []engine.Step{
		{Name: "rollout", Do: func(ctx context.Context, _ engine.Note) error {
			err := e.Rollout(ctx)
			if ctx.Err() != nil {
				return err
			}
			return report.Remedied(err, fmt.Sprintf("remove the cause and wait with csccm status, or go back with csccm rollback %d", p.From.Revision))
		}},
		{Name: "leader", Do: func(ctx context.Context, _ engine.Note) error {
			env := &check.Env{Cluster: e.Cluster, Setup: check.Setup{Namespace: p.Namespace, Release: p.Release}, Clock: e.Clock}
			open, err := check.AwaitLeader(ctx, env, check.Run, nil, e.Progress)
			if err == nil && open != nil {
				err = &report.Error{What: "the new Pods run, but none of them leads: " + open.Message, Fix: open.Remedy, Code: report.ExitTimeout}
			}
			return err
		}},
	}
}

func newPlan(ctx context.Context, e *engine.Env, o Options, history []helm.Release) (*Plan, error) {
	r := &history[0]
	p := &Plan{
		SchemaVersion: 1, Release: e.Release, Namespace: e.Cluster.Namespace, verbose: e.Verbose,
		From: Version{r.Revision, r.ChartVersion, r.AppVersion}, To: Version{0, o.Chart.Version(), o.Chart.AppVersion()},
	}
	was := helm.Values(history)
	if o.ResetValues {
		was = nil
	}
	p.Values = helm.MergeValues(was, o.Values)
	var err error
	p.manifest, err = e.Render(ctx, helm.ApplyRequest{Name: e.Release, Chart: o.Chart, Values: p.Values, KubeVersion: o.KubeVersion})
	if err != nil {
		return nil, err
	}
	// CloudStack is not asked about addresses: check TEN-002 of csccm doctor is.
	if p.Tenants, err = tenants.Decide(ctx, e, p.manifest, nil); err != nil {
		return nil, err
	}
	switch d := direction(r.ChartVersion, o.Chart.Version()); {
	case d < 0:
		p.Action = "downgrade"
	case d > 0:
		p.Action = "upgrade"
	case r.UpToDate(o.Chart, p.Values, p.manifest):
		p.Action = diff.Keep
	default:
		p.Action = diff.Update
	}
	return p, nil
}

func (p *Plan) result() Result {
	return Result{
		SchemaVersion: 1, Action: p.Action, Release: p.Release, Namespace: p.Namespace,
		Revision: p.after.Revision, Chart: p.after.ChartVersion, Controller: p.after.AppVersion,
	}
}

// imageOf returns the image that a manifest runs, for the end of a line: values may name another than the chart's.
func imageOf(manifest string) string {
	objects, err := diff.Parse(manifest)
	if err != nil {
		return ""
	}
	for i := range objects {
		containers, _, _ := unstructured.NestedSlice(objects[i].Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			if container, ok := c.(map[string]any); ok {
				return fmt.Sprintf(", image %v", container["image"])
			}
		}
	}
	return ""
}

// done prints the result for a person.
func (p *Plan) done(w io.Writer) error {
	r := p.result()
	text := fmt.Sprintf("release %s/%s revision %d runs: chart %s, controller %s%s\nCheck it:  csccm doctor\nGo back:   csccm rollback %d\n",
		r.Namespace, r.Release, r.Revision, r.Chart, r.Controller, imageOf(p.after.Manifest), p.From.Revision)
	if p.Action == diff.Keep {
		text = fmt.Sprintf("release %s/%s revision %d is what is wanted: chart %s, controller %s\n", r.Namespace, r.Release, r.Revision, r.Chart, r.Controller)
	}
	_, err := io.WriteString(w, text)
	return err
}
