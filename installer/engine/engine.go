// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine holds what the commands share that change an installed
// controller: connections, questions, the journal, dry runs.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/journal"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rollout"
)

// Helm is what these commands ask of Helm. *helm.Client has it.
type Helm interface {
	Get(ctx context.Context, name string) (*helm.Release, error)
	History(ctx context.Context, name string) ([]helm.Release, error)
	Apply(ctx context.Context, r helm.ApplyRequest) (*helm.Release, error)
	Rollback(ctx context.Context, name string, revision int) (*helm.Release, error)
	Uninstall(ctx context.Context, name string) error
	Template(ctx context.Context, r helm.ApplyRequest) (string, error)
}

// Env is one run of a command.
type Env struct {
	Cluster  *cluster.Cluster
	Helm     Helm
	Prompt   prompt.Prompter
	Progress report.Progress
	Out      io.Writer // results
	ErrOut   io.Writer // plan before a confirmation
	Clock    clock.WithTicker

	Release        string // name of the Helm release
	Yes            bool
	DryRun         bool   // stop after the plan
	Output         string // text (also ""), json, yaml
	Journal        string // file; "" = only the cluster's copy
	RolloutTimeout time.Duration

	// Diff asks the API server what a manifest would change; nil = not asked.
	Diff func(ctx context.Context, namespace, old, manifest string) ([]diff.Change, error)
	// PodLogs returns the last lines of a container's log; may be nil.
	PodLogs func(ctx context.Context, pod *corev1.Pod, lines int64) (string, error)
	// Scrub removes secrets from text of others; may be nil.
	Scrub func(string) string
}

// Structured tells whether results are for programs.
func (e *Env) Structured() bool { return e.Output != "" && e.Output != "text" }

// Deployed reads the release; there must be one.
func (e *Env) Deployed(ctx context.Context) (*helm.Release, error) {
	r, err := e.Helm.Get(ctx, e.Release)
	if errors.Is(err, helm.ErrReleaseNotFound) {
		return nil, report.Usage(fmt.Sprintf("there is no Helm release %s in namespace %s", e.Release, e.Cluster.Namespace),
			"name it with --release and --namespace, or run csccm install")
	}
	return r, e.Cluster.Explain(err)
}

// Agreed asks; a no is an error.
func (e *Env) Agreed(ctx context.Context, question string) error {
	if e.Yes {
		return nil
	}
	ok, err := e.Prompt.Confirm(ctx, prompt.Question{Message: question, Flag: "--yes", Default: "yes"})
	if err != nil {
		return err
	}
	if !ok {
		return report.Declined("nothing was changed")
	}
	return nil
}

// Changes has the API server judge a manifest by dry runs; its refusal is an error. Where it is not asked, the two
// manifests are compared.
func (e *Env) Changes(ctx context.Context, old, manifest string) ([]diff.Change, error) {
	if e.Diff == nil {
		return diff.Between(e.Cluster.Namespace, old, manifest)
	}
	e.Progress.Step("Dry run on the API server")
	changes, err := e.Diff(ctx, e.Cluster.Namespace, old, manifest)
	if err == nil {
		err = diff.Refused(changes)
	}
	if err != nil {
		e.Progress.Fail("")
		return changes, e.Cluster.Explain(err)
	}
	e.Progress.Done("%s", diff.Summary(changes))
	return changes, nil
}

// Rollout waits until the controller's Pods run.
func (e *Env) Rollout(ctx context.Context) error {
	w := &rollout.Waiter{
		Cluster: e.Cluster, Release: e.Release, Clock: e.Clock, Progress: e.Progress, Limit: e.RolloutTimeout,
		PodLogs: e.PodLogs, Scrub: e.Scrub,
	}
	return w.Wait(ctx)
}

// Step is a part of a run that the journal knows. Do gets a function that
// notes what was changed.
type Step struct {
	Name string
	Do   func(ctx context.Context, note func(format string, args ...any)) error
}

// Run carries steps out with an entry in the journal before and after each. ^C
// ends the run between two steps.
func (e *Env) Run(ctx context.Context, command string, steps []Step) (err error) {
	j, err := journal.Open(journal.Options{
		Path: e.Journal, Kube: e.Cluster.Kube, Namespace: e.Cluster.Namespace, Clock: e.Clock, Command: command,
		Scrub: e.Scrub, Warn: e.Progress.Warn,
	})
	if err != nil {
		return err
	}
	defer func() { j.Close(ctx, err) }()
	j.Publish(ctx)
	for _, s := range steps {
		if ctx.Err() != nil {
			return &StoppedError{Step: s.Name, Journal: e.Journal, Cause: context.Cause(ctx)}
		}
		if err := j.Begin(ctx, s.Name); err != nil {
			return err
		}
		var notes []string
		err := s.Do(ctx, func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) })
		j.Finish(ctx, s.Name, err, notes...)
		if err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx))) {
			return &StoppedError{Step: s.Name, Journal: e.Journal, Cause: context.Cause(ctx)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Shielded runs do to its end although ctx is cancelled meanwhile; it has its own time limit.
func Shielded(ctx context.Context, do func(context.Context) error) error {
	const limit = 3 * time.Minute
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return do(sctx)
}

// StoppedError is a run that ended before its time.
type StoppedError struct {
	Step, Journal string
	Cause         error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped before the end of step %q: %v", e.Step, e.Cause)
}

func (e *StoppedError) Unwrap() error { return e.Cause }

// Remedy says how to go on.
func (e *StoppedError) Remedy() string {
	s := "run the same command again: it continues where it stopped"
	if e.Journal != "" {
		s += "; what was done is in " + e.Journal
	}
	return s
}
