// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/selftest"
	"github.com/csccm/csccm/installer/taint"
)

// applySecret writes the credentials, outside Helm, which would keep them in
// its release records.
func (in *Installer) applySecret(ctx context.Context) error {
	in.Progress.Step("Secret %s/%s", in.plan.Secret.Namespace, in.plan.Secret.Name)
	if err := credentials.EnsureNamespace(ctx, in.Cluster.Kube, in.Cluster.Namespace); err != nil {
		return in.Cluster.Explain(err)
	}
	in.session.Publish(ctx)
	in.note("%s %s/%s", in.plan.secret.Action, in.plan.Secret.Namespace, in.plan.Secret.Name)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		if in.caPEM != nil {
			if err := credentials.ApplyCA(ctx, in.Cluster.Kube, in.Cluster.Namespace, in.caPEM); err != nil {
				return err
			}
		}
		return in.plan.secret.Apply(ctx, in.Cluster.Kube)
	})
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.Progress.Done("%s", map[credentials.SecretAction]string{
		credentials.SecretKeep: "kept", credentials.SecretCreate: "created", credentials.SecretOverwrite: "overwritten",
	}[in.plan.secret.Action])
	return nil
}

// applyChart installs or upgrades the release. It does not wait: see rollout.
func (in *Installer) applyChart(ctx context.Context) error {
	p := in.plan.Chart
	in.Progress.Step("Helm release %s/%s", p.Namespace, p.Release)
	switch p.Action {
	case diff.Keep:
		in.Progress.Done("revision %d is what is wanted", in.facts.release.Revision)
		return in.restart(ctx)
	case actionRestore:
		in.note("%s", diff.Summary(in.plan.Objects))
		if err := in.Restore(ctx, in.facts.release.Manifest, in.plan.Objects); err != nil {
			return err
		}
		return in.restart(ctx)
	}
	release, err := in.Helm.Apply(ctx, helm.ApplyRequest{
		Name: p.Release, Chart: in.Chart, Values: in.plan.values, Description: "csccm install",
	})
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.facts.release = release
	in.note("revision %d, chart %s", release.Revision, release.ChartVersion)
	in.Progress.Done("revision %d, chart %s", release.Revision, release.ChartVersion)
	return nil
}

// restart has the running controller read what it reads of the cloud-config only when it starts, such as the zone.
func (in *Installer) restart(ctx context.Context) error {
	if in.plan.secret.Action != credentials.SecretOverwrite || in.existing.Config == nil {
		return nil
	}
	keys := in.existing.Config.NeedsRestart(in.config)
	if len(keys) == 0 {
		return nil
	}
	in.Progress.Step("Restarting the controller, which reads %s when it starts", strings.Join(keys, ", "))
	w := in.Waiter()
	workload, _, err := w.Read(ctx)
	if err == nil && workload != nil {
		err = w.Restart(ctx, workload)
	}
	if err != nil {
		return err
	}
	in.note("restarted for %s", strings.Join(keys, ", "))
	in.Progress.Done("")
	return nil
}

// scrub removes the keys from text of others. The controller never writes them;
// this is the second lock.
func (in *Installer) scrub(text string) string {
	if in.config == nil {
		return text
	}
	for _, secret := range []string{in.config.APIKey, in.config.SecretKey} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

// selfTest has the new controller's program prove from inside the cluster that CloudStack is there for it,
// before it takes anybody's place and before any node is touched.
func (in *Installer) selfTest(ctx context.Context) error {
	if in.SkipSelfTest {
		return nil
	}
	in.Progress.Step("The controller's self-test in the cluster")
	ran := false
	for _, manifest := range in.facts.release.Tests {
		pod, err := selftest.Pod(manifest)
		if err != nil {
			return err
		}
		if pod == nil {
			continue
		}
		r := &selftest.Runner{
			Kube: in.Cluster.Kube, Namespace: in.Cluster.Namespace, Clock: in.Clock, Progress: in.Progress, Logs: in.PodLogs, Scrub: in.scrub,
		}
		result, err := r.Run(ctx, pod)
		var not *selftest.NotRunError
		if errors.As(err, &not) {
			// Nothing is known by it: the checks after the install judge by the controller's log.
			in.Progress.Warn("%v", not)
			in.note("%v", not)
			continue
		}
		if result != nil {
			in.tested = result
			in.sayFindings(result.Findings)
		}
		if err != nil {
			return err
		}
		ran = true
		in.note("passed in Pod %s on node %s", result.Pod, result.Node)
		in.Progress.Done("passed in Pod %s on node %s", result.Pod, result.Node)
	}
	if !ran {
		in.Progress.Done("not run")
	}
	return nil
}

// sayFindings shows what a self-test found.
func (in *Installer) sayFindings(findings []selftest.Finding) {
	for _, f := range findings {
		say := in.Progress.Warn
		if f.OK {
			say = in.Progress.Info
		}
		say("%s: %s", f.Subject, f.Text)
	}
}

// initialiseNodes waits until the controller has initialised the nodes that carry the taint already, as kubelets with
// --cloud-provider=external set it, and then has those initialised that were there before: one first, then the others.
func (in *Installer) initialiseNodes(ctx context.Context) error {
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	in.plan.Nodes = plan
	e := &taint.Executor{Env: in.Env, PerNode: in.PerNode, MaxParallel: in.MaxParallel}
	existing := english.Plural(1+len(plan.Rest), "node", "")
	switch waiting := plan.Waiting(); {
	case len(waiting) > 0:
		if err := in.awaitNodes(ctx, e, waiting); err != nil {
			return err
		}
	case !plan.Needed():
		in.Progress.Step("Nodes")
		in.Progress.Done("%d of %d initialised", done(plan), len(plan.Items))
	}
	switch {
	case !plan.Needed():
		return nil
	case in.SkipTaint:
		in.Progress.Info("%s left as before (--skip-taint): csccm taint has the controller initialise them", existing)
		return nil
	}
	in.note("%s to initialise, %s first", existing, plan.Canary)
	return e.Initialise(ctx, plan)
}

// awaitNodes waits until the controller has initialised nodes that have the taint.
func (in *Installer) awaitNodes(ctx context.Context, e *taint.Executor, names []string) error {
	in.Progress.Step("Waiting for the controller to initialise %s", english.Plural(len(names), "node", ""))
	began := in.Clock.Now()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(20)
	for _, name := range names {
		group.Go(func() error {
			if err := e.Await(gctx, name); err != nil {
				return err
			}
			in.Progress.Info("node %s", name)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	in.Progress.Done("%s", in.Clock.Since(began).Round(10*time.Millisecond))
	return nil
}

// awaitLeader waits until a Pod of the controller leads. After the limit it goes on: the checks after the install say what is
// wrong.
func (in *Installer) awaitLeader(ctx context.Context) error {
	_, err := check.AwaitLeader(ctx, in.checkEnv(), in.checks, in.SkipChecks, in.Progress)
	return err
}

// postflight runs the checks of an installed controller.
func (in *Installer) postflight(ctx context.Context) error {
	in.Progress.Step("Checks after the install")
	return in.runChecks(ctx, in.checkEnv(), check.PhaseInstalled)
}
