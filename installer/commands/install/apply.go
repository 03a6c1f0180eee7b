// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/selftest"
	"github.com/csccm/csccm/installer/taint"
)

// work carries a plan out, with all that it was made from.
type work struct {
	*engine.Env
	*Config
	facts   *facts
	access  *access
	plan    *plan
	release *helm.Release    // as it is
	tested  *selftest.Result // in the cluster; nil where it did not run
}

// applySecret writes the credentials, outside Helm, which would keep them in its release records.
func (w *work) applySecret(ctx context.Context, note engine.Note) error {
	s, there := w.plan.secret, w.facts.secret
	w.Progress.Step("Secret %s/%s", there.Namespace, there.Name)
	note("%s %s/%s", s.Action, there.Namespace, there.Name)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		if w.access.caPEM != nil {
			if err := credentials.ApplyCA(ctx, w.Cluster.Kube, w.Cluster.Namespace, w.access.caPEM); err != nil {
				return err
			}
		}
		return s.Apply(ctx, w.Cluster.Kube)
	})
	if err != nil {
		return w.Cluster.Explain(err)
	}
	w.Progress.Done("%s", map[credentials.SecretAction]string{
		credentials.SecretKeep: "kept", credentials.SecretCreate: "created", credentials.SecretOverwrite: "overwritten",
	}[s.Action])
	return nil
}

// applyChart installs or upgrades the release. It does not wait: see rollout.
func (w *work) applyChart(ctx context.Context, note engine.Note) (err error) {
	w.Progress.Step("Helm release %s/%s", w.Cluster.Namespace, w.Release)
	switch w.plan.chart {
	case actionKeep:
		w.Progress.Done("revision %d is what is wanted", w.release.Revision)
		return w.restart(ctx, note)
	case actionRestore:
		note("%s", diff.Summary(w.plan.objects))
		if err := w.Restore(ctx, w.release.Manifest, w.plan.objects); err != nil {
			return err
		}
		return w.restart(ctx, note)
	default:
	}
	w.release, err = w.Helm.Apply(ctx, helm.ApplyRequest{Name: w.Release, Chart: w.Chart, Values: w.plan.values, Description: "csccm install"})
	if err != nil {
		return w.Cluster.Explain(err)
	}
	note("revision %d, chart %s", w.release.Revision, w.release.ChartVersion)
	w.Progress.Done("revision %d, chart %s", w.release.Revision, w.release.ChartVersion)
	return nil
}

// restart has the running controller read what it reads of the cloud-config only when it starts, such as the zone.
func (w *work) restart(ctx context.Context, note engine.Note) error {
	was := w.facts.secret.Config
	if w.plan.secret.Action != credentials.SecretOverwrite || was == nil {
		return nil
	}
	keys := strings.Join(was.NeedsRestart(w.access.config), ", ")
	if keys == "" {
		return nil
	}
	w.Progress.Step("Restarting the controller, which reads %s when it starts", keys)
	waiter := w.Waiter()
	workload, _, err := waiter.Read(ctx)
	if err == nil && workload != nil {
		err = waiter.Restart(ctx, workload)
	}
	if err == nil {
		note("restarted for %s", keys)
		w.Progress.Done("")
	}
	return err
}

// selfTest has the new controller's program prove from inside the cluster that CloudStack is there for it,
// before it takes anybody's place and before any node is touched.
func (w *work) selfTest(ctx context.Context, note engine.Note) error {
	if w.SkipSelfTest {
		return nil
	}
	w.Progress.Step("The controller's self-test in the cluster")
	ran := false
	for _, manifest := range w.release.Tests {
		pod, err := selftest.Pod(manifest)
		if err != nil {
			return err
		}
		if pod == nil {
			continue
		}
		r := &selftest.Runner{
			Kube: w.Cluster.Kube, Namespace: w.Cluster.Namespace, Clock: w.Clock, Progress: w.Progress, Logs: w.PodLogs, Scrub: w.Scrub,
		}
		result, err := r.Run(ctx, pod)
		var not *selftest.NotRunError
		if errors.As(err, &not) {
			// Nothing is known by it: the checks after the install judge by the controller's log.
			w.Progress.Warn("%v", not)
			note("%v", not)
			continue
		}
		if result != nil {
			w.tested = result
			sayFindings(w.Env, result.Findings)
		}
		if err != nil {
			return err
		}
		ran = true
		note("passed in Pod %s on node %s", result.Pod, result.Node)
		w.Progress.Done("passed in Pod %s on node %s", result.Pod, result.Node)
	}
	if !ran {
		w.Progress.Done("not run")
	}
	return nil
}

// initialiseNodes waits until the controller has initialised the nodes that carry the taint already, as kubelets with
// --cloud-provider=external set it, and then has those initialised that were there before: one first, then the others.
func (w *work) initialiseNodes(ctx context.Context, note engine.Note) error {
	p, err := taintPlan(ctx, w.Env, w.Config, w.facts, w.access)
	if err != nil {
		return err
	}
	e := &taint.Executor{Env: w.Env, PerNode: w.PerNode, MaxParallel: w.MaxParallel}
	switch waiting := p.In(taint.StateWaiting); {
	case len(waiting) > 0:
		w.Progress.Step("Waiting for the controller to initialise %s", english.Plural(len(waiting), "node", ""))
		if _, err := cluster.Each(ctx, waiting, func(ctx context.Context, name *string) (struct{}, error) {
			err := e.Await(ctx, *name)
			if err == nil {
				w.Progress.Info("node %s", *name)
			}
			return struct{}{}, err
		}); err != nil {
			return err
		}
		w.Progress.Done("")
	case len(p.Order) == 0:
		w.Progress.Step("Nodes")
		w.Progress.Done("%d of %d initialised", len(p.In(taint.StateDone)), len(p.Items))
	}
	if w.SkipTaint && len(p.Order) > 0 {
		w.Progress.Info("%s left as before (--skip-taint): csccm taint has the controller initialise them", english.Plural(len(p.Order), "node", ""))
		return nil
	}
	return e.Initialise(ctx, p, note)
}

// awaitLeader waits until a Pod of the controller leads. After the limit it goes on: the checks after the install say what is
// wrong.
func (w *work) awaitLeader(ctx context.Context, _ engine.Note) error {
	_, err := check.AwaitLeader(ctx, checkEnv(w.Env, w.access), w.checks, w.SkipChecks, w.Progress)
	return err
}

// postflight runs the checks of an installed controller.
func (w *work) postflight(ctx context.Context, _ engine.Note) error {
	w.Progress.Step("Checks after the install")
	env := checkEnv(w.Env, w.access)
	env.SelfTest = w.tested
	return w.plan.runChecks(ctx, w.Env, w.Config, env, check.PhaseInstalled)
}
