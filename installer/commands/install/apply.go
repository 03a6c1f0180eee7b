// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/helm"
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
	if p.Action == "keep" {
		in.Progress.Done("revision %d is what is wanted", in.facts.release.Revision)
		return nil
	}
	release, err := in.Helm.Apply(ctx, helm.ApplyRequest{
		Name: p.Release, Chart: in.Options.Chart, Values: in.Options.Values, Description: "csccm install",
	})
	if err != nil {
		return in.Cluster.Explain(err)
	}
	in.facts.release = release
	in.note("revision %d, chart %s", release.Revision, release.ChartVersion)
	in.Progress.Done("revision %d, chart %s", release.Revision, release.ChartVersion)
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

// awaitNodes waits until the controller has initialised the nodes that carry
// the taint already, as kubelets with --cloud-provider=external set it.
func (in *Installer) awaitNodes(ctx context.Context) error {
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	in.plan.Nodes = plan
	waiting := plan.Waiting()
	if len(waiting) == 0 {
		if !plan.Needed() {
			in.Progress.Step("Nodes")
			in.Progress.Done("%d of %d initialised", done(plan), len(plan.Items))
		}
		return nil
	}
	in.Progress.Step("Waiting for the controller to initialise %s", count(len(waiting), "node"))
	began := in.Clock.Now()
	e := in.executor()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(20)
	for _, name := range waiting {
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

func (in *Installer) executor() *taint.Executor {
	return &taint.Executor{
		Kube: in.Cluster.Kube, Clock: in.Clock, PerNode: in.Options.PerNode, MaxParallel: in.Options.MaxParallel,
		Report: func(node string, took time.Duration) {
			in.Progress.Info("node %s initialised after %s", node, took.Round(10*time.Millisecond))
		},
	}
}

// taintNodes has the nodes initialised that were there before the controller:
// one first, then the others.
func (in *Installer) taintNodes(ctx context.Context) error {
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	in.plan.Nodes = plan
	if !plan.Needed() {
		return nil
	}
	if in.Options.SkipTaint {
		in.Progress.Info("%s left as before (--skip-taint): csccm taint%s has the controller initialise them", count(1+len(plan.Rest), "node"), in.namespaceFlag())
		return nil
	}
	if in.Options.SnapshotDir != "" {
		path, err := taint.TakeSnapshot(in.facts.nodes, in.Cluster.Server, in.Clock.Now()).Write(in.Options.SnapshotDir)
		if err != nil {
			return err
		}
		in.note("the nodes as they were: %s", path)
		in.Progress.Info("the nodes as they were: %s", path)
	}
	in.note("%s to initialise, %s first", count(1+len(plan.Rest), "node"), plan.Canary)
	e := in.executor()
	in.Progress.Step("Initialising node %s, alone at first", plan.Canary)
	if err := e.Canary(ctx, plan); err != nil {
		return err
	}
	in.Progress.Done("")
	if len(plan.Rest) == 0 {
		return nil
	}
	in.Progress.Step("Initialising %s", count(len(plan.Rest), "more node"))
	if err := e.Rest(ctx, plan); err != nil {
		return err
	}
	in.Progress.Done("")
	return nil
}

// postflight runs the checks of an installed controller.
func (in *Installer) postflight(ctx context.Context) error {
	in.Progress.Step("Checks after the install")
	return in.runChecks(ctx, in.installed(), check.PhaseInstalled)
}

// installed is what the checks of an installed controller work with.
func (in *Installer) installed() *check.Env {
	return &check.Env{
		Cluster: in.Cluster, CloudStack: in.cloud, CloudConfig: in.config, Namespace: in.Cluster.Namespace,
		Release: in.Options.Release, RequiredCommands: in.Required, OptionalCommands: in.Optional, Clock: in.Clock, SelfTest: in.tested,
	}
}
