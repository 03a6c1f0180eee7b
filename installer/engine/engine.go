// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine runs the commands that change something. A command makes a plan and steps that carry it out; the
// engine shows the plan, asks for consent, runs the steps, records them and handles interruptions in the same way for
// all commands.
package engine

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Helm is the part of *helm.Client that these commands use.
type Helm interface {
	History(ctx context.Context, name string) ([]helm.Release, error)
	Apply(ctx context.Context, r helm.ApplyRequest) (*helm.Release, error)
	Rollback(ctx context.Context, name string, revision int) (*helm.Release, error)
	NeverRan(ctx context.Context, name string, revision int) error
	Uninstall(ctx context.Context, name string) error
	Template(ctx context.Context, r helm.ApplyRequest) (string, error)
}

// LogIn opens an administrator's session for the API at the URL of a cloud-config; end closes it.
type LogIn func(
	ctx context.Context, e *Env, at *cloudstack.Config,
) (admin *cloudapi.Client, end func(), err error)

// Env is the environment of one run of a command.
type Env struct {
	Cluster  *cluster.Cluster // nil if the command uses only CloudStack
	Place    string           // name of that CloudStack
	Helm     Helm
	Prompt   prompt.Prompter
	Progress *report.Progress
	Out      io.Writer // results
	Clock    clock.WithTicker
	// Interactive is true if there is a user at a terminal who can answer questions.
	Interactive bool
	Style       report.Style // of Out

	Release        string // name of the Helm release
	Yes            bool
	ForceUnlock    bool   // mark a pending revision of the release as failed: its Helm operation has crashed
	DryRun         bool   // stop after the plan
	Verbose        bool   // list each item that is otherwise only counted
	Output         string // text (also ""), json, yaml
	Journal        string // path of the journal; "" = none
	RolloutTimeout time.Duration

	// Diff returns what a manifest would change, by dry runs on the API server; nil in tests without an API server.
	Diff func(ctx context.Context, old, manifest string) ([]diff.Change, error)
	// PodLogs returns the last lines of a container's log; may be nil.
	PodLogs func(ctx context.Context, pod *corev1.Pod, lines int64) (string, error)
	// Scrub removes secrets from text of other programs; may be nil.
	Scrub func(string) string

	session *session // of the latest Run
}

// Structured reports whether the output is JSON or YAML.
func (e *Env) Structured() bool { return e.Output != "" && e.Output != "text" }

// Asks reports whether to ask the user for missing settings.
func (e *Env) Asks() bool { return e.Interactive && !e.Yes && !e.DryRun && !e.Structured() }

// History returns the revisions of the release, the newest first; none if there is no release or it was uninstalled
// with its history kept. It returns an error if a Helm operation on the release is in progress, unless ForceUnlock is
// set.
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

// Find returns the newest revision of the release; nil if there is none. See History.
func (e *Env) Find(ctx context.Context) (*helm.Release, error) {
	history, err := e.History(ctx)
	if err != nil || len(history) == 0 {
		return nil, err
	}
	return &history[0], nil
}

// Deployed is like History but returns an error if there is no release.
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

// Render renders a chart with the release's values. It refuses the value nameOverride, because csccm finds the Pods by
// the label that it changes.
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

// Changes returns what a manifest would change, by dry runs on the API server, and an error if the API server refuses a
// change. old is the manifest of the release. If both are the same manifest, the result is what somebody has changed or
// deleted in the cluster.
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

// Scrubbed returns text of other programs without secrets.
func (e *Env) Scrubbed(text string) string {
	if e.Scrub == nil {
		return text
	}
	return e.Scrub(text)
}
