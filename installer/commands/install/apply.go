// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/kube/selftest"
	"github.com/csccm/csccm/installer/taint"
)

// applySecret writes the credentials, outside Helm, which would keep them in its release records.
func (r *run) applySecret(ctx context.Context, note engine.Note) error {
	r.Progress.Step("Secret %s/%s", r.secret.Namespace, r.secret.Name)
	note("%s %s/%s", r.newSecret.Action, r.secret.Namespace, r.secret.Name)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		err := credentials.EnsureNamespace(ctx, r.Cluster.Kube, r.Cluster.Namespace)
		if err == nil && r.caPEM != nil {
			err = credentials.ApplyCA(ctx, r.Cluster.Kube, r.Cluster.Namespace, r.caPEM)
		}
		if err == nil {
			err = r.newSecret.Apply(ctx, r.Cluster.Kube)
		}
		return err
	})
	if err == nil {
		r.Progress.Done("%s", map[credentials.SecretAction]string{
			credentials.SecretKeep: "kept", credentials.SecretCreate: "created", credentials.SecretOverwrite: "overwritten",
		}[r.newSecret.Action])
	}
	return r.Cluster.Explain(err)
}

// applyChart installs or upgrades the release. The rollout waits for its Pods.
func (r *run) applyChart(ctx context.Context, note engine.Note) (err error) {
	r.Progress.Step("Helm release %s/%s", r.Cluster.Namespace, r.Release)
	if r.release = r.was; r.action == actionKeep {
		r.Progress.Done("revision %d is what is wanted", r.was.Revision)
	} else {
		if r.release, err = r.Helm.Apply(ctx, r.request); err != nil {
			return r.Cluster.Explain(err)
		}
		note("revision %d, chart %s", r.release.Revision, r.release.ChartVersion)
		r.Progress.Done("revision %d, chart %s", r.release.Revision, r.release.ChartVersion)
	}
	// A running controller reads some keys of the cloud-config, such as the zone, only when it starts.
	was, keys := r.secret.Config, ""
	if r.newSecret.Action == credentials.SecretOverwrite && was != nil {
		keys = strings.Join(was.NeedsRestart(r.config), ", ")
	}
	if keys == "" {
		return nil
	}
	r.Progress.Step("Restarting the controller, which reads %s when it starts", keys)
	if err := rollout.Restart(ctx, r.Env); err != nil {
		return err
	}
	note("restarted for %s", keys)
	r.Progress.Done("")
	return nil
}

// selfTest has the new controller's program prove from inside the cluster that CloudStack is there for it,
// before it takes anybody's place and before any node is touched.
func (r *run) selfTest(ctx context.Context, note engine.Note) error {
	if r.SkipSelfTest {
		return nil
	}
	r.Progress.Step("The controller's self-test in the cluster")
	result := "not run"
	for _, manifest := range r.release.Tests {
		where, err := selftest.Run(ctx, r.Env, manifest)
		if err != nil {
			return err
		}
		if where != "" {
			result = "passed in " + where
		}
	}
	note("%s", result)
	r.Progress.Done("%s", result)
	return nil
}

// initialiseNodes waits until the controller has initialised the nodes that carry the taint already, as kubelets with
// --cloud-provider=external set it, and then has those initialised that were there before: one first, then the others.
func (r *run) initialiseNodes(ctx context.Context, note engine.Note) error {
	p, err := r.taintPlan(ctx)
	if err != nil {
		return err
	}
	e := &taint.Executor{Env: r.Env, PerNode: r.PerNode, MaxParallel: r.MaxParallel}
	if waiting := p.In(taint.StateWaiting); len(waiting) > 0 {
		r.Progress.Step("Waiting for the controller to initialise %s", english.Plural(len(waiting), "node", ""))
		if _, err := cluster.Each(ctx, waiting, func(ctx context.Context, name *string) (struct{}, error) {
			err := e.Await(ctx, *name)
			if err == nil {
				r.Progress.Info("node %s", *name)
			}
			return struct{}{}, err
		}); err != nil {
			return err
		}
		r.Progress.Done("")
	}
	if r.SkipTaint && len(p.Order) > 0 {
		r.Progress.Info("%s left as before (--skip-taint): csccm taint has the controller initialise them", english.Plural(len(p.Order), "node", ""))
		return nil
	}
	return e.Initialise(ctx, p, note)
}

// summary says what runs now, and to programs the plan with what was done.
func (r *run) summary(ctx context.Context) error {
	p, err := r.taintPlan(ctx)
	if err != nil {
		return err
	}
	if r.Structured() {
		out := r.shown()
		out.Done = r.session.Done()
		return report.Encode(r.Out, r.Output, out)
	}
	commands := r.StyleOf(r.Out).Commands
	if r.taker != nil {
		names := cloudapi.Names(r.taker.Plan.Predecessors, func(p *family.Predecessor) string { return p.String() })
		text := "Took the place of " + strings.Join(names, ", ") + ".\n" + r.taker.Plan.Afterwards()
		if _, err := io.WriteString(r.Out, commands(text)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(r.Out, `cloudstack-ccm %s runs in namespace %s; %d of %s initialised.
Check it at any time:  %s
The same again:        %s
`, r.release.AppVersion, r.Cluster.Namespace, len(p.In(taint.StateDone)), english.Plural(len(p.Items), "node", ""),
		commands("csccm doctor"), report.ShellLine(r.FlagLine(r.Env)...))
	return err
}

// FlagLine is the command that repeats this install without questions: its flags, and what was answered. It names where
// secrets come from, never what they are. After --from-predecessor the Secret holds the keys; the other provider's may go with it.
func (c *Config) FlagLine(e *engine.Env) []string {
	line := slices.Concat([]string{"csccm", "install"}, e.Cluster.Args(e.Release), c.Typed)
	given := func(flag string) bool { return slices.Contains(c.Typed, flag) }
	admin, keys := c.Source == SourceAdmin, c.Source == SourceKeys && !c.FromPredecessor
	login, files := admin && !given("--admin-api-key-file"), keys && !given("--cloud-config")
	for _, a := range []struct {
		is          bool
		flag, value string
	}{
		{admin || keys, "--api-url", c.Cloud.APIURL},
		{login, "--admin-user", c.AdminUser},
		{login, "--admin-domain", c.AdminDomain},
		{login && !given("--admin-password-stdin"), "--admin-password-file", "FILE"},
		{admin, "--domain", c.Domain},
		{admin, "--account", c.Account},
		{files, "--api-key-file", "FILE"},
		{files, "--secret-key-file", "FILE"},
		{true, "--project", c.Cloud.ProjectID},
		{true, "--zone", c.Cloud.Zone},
		{true, "--accept", strings.Join(c.Accept, ",")},
		{true, "--pin", strings.Join(c.Pin, ",")},
	} {
		if a.is && a.value != "" && !given(a.flag) {
			line = append(line, a.flag, a.value)
		}
	}
	return append(line, "--yes")
}
