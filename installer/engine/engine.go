// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine runs the commands that change something. A command makes a plan, which decides, and steps, which act;
// the engine shows, asks, records, stops and reports in the same way for all of them.
package engine

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
)

// Helm is what these commands ask of Helm. *helm.Client has it.
type Helm interface {
	History(ctx context.Context, name string) ([]helm.Release, error)
	Apply(ctx context.Context, r helm.ApplyRequest) (*helm.Release, error)
	Rollback(ctx context.Context, name string, revision int) (*helm.Release, error)
	NeverRan(ctx context.Context, name string, revision int) error
	Uninstall(ctx context.Context, name string) error
	Template(ctx context.Context, r helm.ApplyRequest) (string, error)
}

// Env is one run of a command.
type Env struct {
	Cluster  *cluster.Cluster // nil where a command talks to CloudStack alone
	Place    string           // where such a command works
	Helm     Helm
	Prompt   prompt.Prompter
	Progress *report.Progress
	Out      io.Writer // results
	ErrOut   io.Writer // plan before a confirmation
	Clock    clock.WithTicker
	// Interactive: somebody is at the terminal and can choose.
	Interactive bool
	// Style is how to draw on Out or ErrOut; nil for plainly.
	Style func(io.Writer) report.Style

	Release        string // name of the Helm release
	Yes            bool
	ForceUnlock    bool   // whoever left a pending revision of the release is dead
	DryRun         bool   // stop after the plan
	Verbose        bool   // list what is summed up otherwise
	Output         string // text (also ""), json, yaml
	Journal        string // file; "" = none
	RolloutTimeout time.Duration

	// Diff asks the API server what a manifest would change; nil in tests without one.
	Diff func(ctx context.Context, old, manifest string) ([]diff.Change, error)
	// PodLogs returns the last lines of a container's log; may be nil.
	PodLogs func(ctx context.Context, pod *corev1.Pod, lines int64) (string, error)
	// Scrub removes secrets from text of others; may be nil.
	Scrub func(string) string

	session *Session // the newest
}

// Structured reports whether results are for programs.
func (e *Env) Structured() bool { return e.Output != "" && e.Output != "text" }

// Asks reports whether somebody can and must be asked for what is not said yet.
func (e *Env) Asks() bool { return e.Interactive && !e.Yes && !e.DryRun && !e.Structured() }

// StyleOf returns how to draw on w.
func (e *Env) StyleOf(w io.Writer) report.Style {
	if e.Style == nil {
		return report.Style{}
	}
	return e.Style(w)
}

// History reads the revisions of the release, the newest first; none where there is no release, or no more than its
// history. A release that somebody is working on is refused, unless ForceUnlock is set.
func (e *Env) History(ctx context.Context) ([]helm.Release, error) {
	history, err := e.Helm.History(ctx, e.Release)
	switch {
	case errors.Is(err, helm.ErrReleaseNotFound) ||
		err == nil && (len(history) == 0 || history[0].Status == "uninstalled"):
		return nil, nil
	case err != nil:
		return nil, err
	case !e.ForceUnlock:
		err = helm.Pending(&history[0])
	}
	return history, err
}

// Find reads the newest revision of the release; nil where there is none. See History.
func (e *Env) Find(ctx context.Context) (*helm.Release, error) {
	history, err := e.History(ctx)
	if err != nil || len(history) == 0 {
		return nil, err
	}
	return &history[0], nil
}

// Deployed is History of a release that must exist.
func (e *Env) Deployed(ctx context.Context) ([]helm.Release, error) {
	history, err := e.History(ctx)
	if err == nil && len(history) == 0 {
		err = report.Usage(
			"name it with --release and --namespace, or run csccm install",
			"there is no Helm release %s in namespace %s", e.Release, e.Cluster.Namespace,
		)
	}
	return history, err
}

// Render renders a chart with the release's values. It refuses another label for the Pods, by which csccm finds them.
func (e *Env) Render(ctx context.Context, r helm.ApplyRequest) (string, error) {
	if other, _ := r.Values["nameOverride"].(string); other != "" {
		return "", report.Usage(
			"leave the value out; fullnameOverride names the objects",
			"chart values: nameOverride: csccm finds the controller by the label %s=%s, not %s",
			cluster.NameLabel, cluster.ChartName, other,
		)
	}
	return e.Helm.Template(ctx, r)
}

// Changes has the API server judge a manifest by dry runs; its refusal is an error. old is that of the release: the
// same one finds what somebody has changed of its objects, or deleted.
func (e *Env) Changes(ctx context.Context, old, manifest string) ([]diff.Change, error) {
	if e.Diff == nil {
		return nil, nil
	}
	e.Progress.Step("Dry run on the API server")
	changes, err := e.Diff(ctx, old, manifest)
	if err == nil {
		err = diff.Refused(changes)
	}
	if err != nil {
		e.Progress.Fail("")
		return changes, err
	}
	e.Progress.Done("%s", diff.Summary(changes))
	return changes, nil
}

// Scrubbed is text of others without secrets.
func (e *Env) Scrubbed(text string) string {
	if e.Scrub == nil {
		return text
	}
	return e.Scrub(text)
}
