// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/commands/tenants"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/storage"
)

// Options of an upgrade.
type Options struct {
	Chart          *helm.Chart
	Values         map[string]any // over those of the release
	ResetValues    bool           // forget the release's values
	AllowDowngrade bool
	StrictTenancy  bool // keep no Service that the policy for tenants refuses
	BackupDir      string
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
	Backup        string `json:"backup,omitempty"` // file with the release as it was
}

// Upgrade brings the release to a chart.
func Upgrade(ctx context.Context, e *engine.Env, o Options) error {
	r, err := e.Deployed(ctx)
	if err != nil {
		return err
	}
	if err := sayDriver(ctx, e); err != nil {
		return err
	}
	p, err := newPlan(ctx, e, o, r)
	if err != nil {
		return err
	}
	if p.Action == "downgrade" && !o.AllowDowngrade {
		return report.Usage(fmt.Sprintf("chart %s is older than %s, which is installed", p.To.Chart, p.From.Chart), "add --allow-downgrade, or go back to a revision that worked with csccm rollback")
	}
	op := p.operation("upgrade", r)
	if p.Action == diff.Keep {
		return e.Run(ctx, op)
	}
	if p.Objects, err = e.Changes(ctx, r.Manifest, p.manifest); err != nil {
		return err
	}
	op.Prepare = func(context.Context) error {
		if o.BackupDir == "" {
			return nil
		}
		var err error
		if p.backup, err = writeBackup(o.BackupDir, r, e.Clock.Now()); err == nil {
			e.Progress.Info("the release as it was: %s", p.backup)
		}
		return err
	}
	op.Steps = p.steps(e, "", func(ctx context.Context) (*helm.Release, error) {
		// The values were laid over each other and renamed here already.
		return e.Helm.Apply(ctx, helm.ApplyRequest{
			Name: e.Release, Chart: o.Chart, Values: p.Values, ResetValues: true, Description: "csccm upgrade",
		})
	})
	return e.Run(ctx, op)
}

// sayDriver says that csccm would install another version of the CSI driver that it has installed: an upgrade is of the
// controller alone.
func sayDriver(ctx context.Context, e *engine.Env) error {
	r, err := e.Find(ctx, storage.Release)
	if err == nil && r != nil && r.ChartVersion != storage.Pinned.Version {
		e.Progress.Info("the CSI driver stays at chart %s; csccm install --with csi brings it to %s", r.ChartVersion, storage.Pinned.Version)
	}
	return err
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
	return []engine.Step{
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
		{Name: "rollout", Do: func(ctx context.Context, _ engine.Note) error {
			err := e.Rollout(ctx)
			if ctx.Err() != nil {
				return err
			}
			return report.Remedied(err, fmt.Sprintf("remove the cause and wait with csccm status, or go back with csccm rollback %d", p.From.Revision))
		}},
	}
}

func newPlan(ctx context.Context, e *engine.Env, o Options, r *helm.Release) (*Plan, error) {
	p := &Plan{
		SchemaVersion: 1, Release: e.Release, Namespace: e.Cluster.Namespace,
		From: Version{r.Revision, r.ChartVersion, r.AppVersion}, To: Version{0, o.Chart.Version(), o.Chart.AppVersion()},
	}
	list, err := renames(o.Chart.Annotation(renamesAnnotation))
	if err != nil {
		return nil, err
	}
	was := r.Values
	if o.ResetValues {
		was = nil
	}
	was, p.Renamed = applyRenames(was, list)
	p.Values = helm.MergeValues(was, o.Values)
	render := func() (err error) {
		p.manifest, err = e.Render(ctx, helm.ApplyRequest{Name: e.Release, Chart: o.Chart, Values: p.Values, KubeVersion: o.KubeVersion})
		return err
	}
	if err := render(); err != nil {
		return nil, err
	}
	// CloudStack is not asked about addresses: check TEN-002 of csccm doctor is.
	if p.Tenants, err = tenants.Decide(ctx, e, p.manifest, r.Manifest, &o.StrictTenancy, nil); err != nil {
		return nil, err
	}
	if p.Tenants != nil && p.Tenants.Values != nil {
		e.Progress.Info("chart values keep %s (--strict-tenancy leaves them refused)", strings.Join(p.Tenants.Kept(), ", "))
		p.Values = helm.MergeValues(p.Values, p.Tenants.Values)
		if err := render(); err != nil {
			return nil, err
		}
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
		Revision: p.after.Revision, Chart: p.after.ChartVersion, Controller: p.after.AppVersion, Backup: p.backup,
	}
}

// done prints the result for a person.
func (p *Plan) done(w io.Writer) error {
	r := p.result()
	text := fmt.Sprintf("release %s/%s revision %d runs: chart %s, controller %s\nCheck it:  csccm doctor\nGo back:   csccm rollback %d\n",
		r.Namespace, r.Release, r.Revision, r.Chart, r.Controller, p.From.Revision)
	if p.Action == diff.Keep {
		text = fmt.Sprintf("release %s/%s revision %d is what is wanted: chart %s, controller %s\n", r.Namespace, r.Release, r.Revision, r.Chart, r.Controller)
	}
	_, err := io.WriteString(w, text)
	return err
}
