// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// Options of an upgrade.
type Options struct {
	Chart          *helm.Chart
	Values         map[string]any // over those of the release
	ResetValues    bool           // forget the release's values
	AllowDowngrade bool
	StrictTenancy  bool // keep no Service that the policy for tenants refuses
	Interactive    bool // somebody is at the terminal and can choose
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
	p, err := newPlan(ctx, e, o, r)
	if err != nil {
		return err
	}
	if p.Action == "downgrade" && !o.AllowDowngrade {
		return report.Usage(fmt.Sprintf("chart %s is older than %s, which is installed", p.To.Chart, p.From.Chart), "add --allow-downgrade, or go back to a revision that worked with csccm rollback")
	}
	if p.Action == diff.Keep {
		return finish(e, p, r, "")
	}
	if p.Objects, err = e.Changes(ctx, r.Manifest, p.manifest); err != nil {
		return err
	}
	if done, err := show(ctx, e, p); done || err != nil {
		return err
	}
	path := ""
	if o.BackupDir != "" {
		if path, err = writeBackup(o.BackupDir, r, e.Clock.Now()); err != nil {
			return err
		}
		e.Progress.Info("the release as it was: %s", path)
	}
	err = e.Run(ctx, "upgrade", []engine.Step{
		{Name: "Helm release", Do: func(ctx context.Context, note func(string, ...any)) error {
			e.Progress.Step("Helm release %s/%s", p.Namespace, p.Release)
			// The values were laid over each other and renamed here already.
			next, err := e.Helm.Apply(ctx, helm.ApplyRequest{
				Name: e.Release, Chart: o.Chart, Values: p.Values, ResetValues: true, Description: "csccm upgrade",
			})
			if err != nil {
				e.Progress.Fail("")
				return e.Cluster.Explain(err)
			}
			note("revision %d after %d, chart %s after %s", next.Revision, r.Revision, next.ChartVersion, r.ChartVersion)
			e.Progress.Done("revision %d, chart %s", next.Revision, next.ChartVersion)
			r = next
			return nil
		}},
		{Name: "rollout", Do: func(ctx context.Context, _ func(string, ...any)) error {
			return wayBack(e.Rollout(ctx), p.From.Revision)
		}},
	})
	if err != nil {
		return err
	}
	return finish(e, p, r, path)
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
	p.manifest, err = e.Helm.Template(ctx, helm.ApplyRequest{Name: e.Release, Chart: o.Chart, Values: p.Values, KubeVersion: o.KubeVersion})
	if err != nil {
		return nil, err
	}
	if err := p.planTenants(ctx, e, o, r.Manifest); err != nil {
		return nil, err
	}
	switch d := direction(r.ChartVersion, o.Chart.Version()); {
	case d < 0:
		p.Action = "downgrade"
	case d > 0:
		p.Action = "upgrade"
	case r.Deployed() && same(r.Values, p.Values) && strings.HasPrefix(p.manifest, strings.TrimSpace(r.Manifest)):
		p.Action = diff.Keep
	default:
		p.Action = diff.Update
	}
	return p, nil
}

// same compares values; numbers of flags and of a stored release have different Go types.
func same(a, b map[string]any) bool {
	normal := func(v map[string]any) any {
		body, err := json.Marshal(v)
		var out map[string]any
		if err != nil || json.Unmarshal(body, &out) != nil || len(out) == 0 {
			return map[string]any{}
		}
		return out
	}
	return reflect.DeepEqual(normal(a), normal(b))
}

// show prints the plan where it is wanted and asks; done is true after a dry run.
func show(ctx context.Context, e *engine.Env, p *Plan) (done bool, err error) {
	if e.DryRun {
		if e.Structured() {
			return true, report.Encode(e.Out, e.Output, p)
		}
		return true, p.print(e.Out)
	}
	if e.Yes {
		return false, nil
	}
	if err := p.print(e.ErrOut); err != nil {
		return false, err
	}
	return false, e.Agreed(ctx, "Go on")
}

// FailedError is a release that was changed and whose Pods do not come up.
type FailedError struct {
	Revision int // that worked before
	Err      error
}

func wayBack(err error, revision int) error {
	if err == nil {
		return nil
	}
	return &FailedError{revision, err}
}

func (e *FailedError) Error() string { return e.Err.Error() }

func (e *FailedError) Unwrap() error { return e.Err }

// Remedy says how to go on and how to go back.
func (e *FailedError) Remedy() string {
	return fmt.Sprintf("remove the cause and wait with csccm status, or go back with csccm rollback %d", e.Revision)
}

func finish(e *engine.Env, p *Plan, r *helm.Release, backup string) error {
	out := Result{
		SchemaVersion: 1, Action: p.Action, Release: e.Release, Namespace: e.Cluster.Namespace,
		Revision: r.Revision, Chart: r.ChartVersion, Controller: r.AppVersion, Backup: backup,
	}
	if e.Structured() {
		return report.Encode(e.Out, e.Output, out)
	}
	if p.Action == diff.Keep {
		_, err := fmt.Fprintf(e.Out, "release %s/%s revision %d is what is wanted: chart %s, controller %s\n", out.Namespace, out.Release, out.Revision, out.Chart, out.Controller)
		return err
	}
	_, err := fmt.Fprintf(e.Out, "release %s/%s revision %d runs: chart %s, controller %s\nCheck it:  csccm doctor\nGo back:   csccm rollback %d\n",
		out.Namespace, out.Release, out.Revision, out.Chart, out.Controller, p.From.Revision)
	return err
}
