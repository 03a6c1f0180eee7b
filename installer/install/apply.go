// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/credentials"
	"github.com/csccm/csccm/installer/helm"
	"github.com/csccm/csccm/installer/taint"
)

// applySecret writes the credentials, outside Helm, which would keep them in
// its release records.
func (in *Installer) applySecret(ctx context.Context) error {
	in.Progress.Step("Secret %s/%s", in.plan.Secret.Namespace, in.plan.Secret.Name)
	err := shielded(ctx, func(ctx context.Context) error {
		if in.caPEM != nil {
			if err := credentials.ApplyCA(ctx, in.Cluster.Kube, in.Cluster.Namespace, in.caPEM); err != nil {
				return err
			}
		}
		return in.plan.secret.Apply(ctx, in.Cluster.Kube)
	})
	if err != nil {
		in.Progress.Fail("")
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
		Name: p.Release, Chart: in.Options.Chart, Values: in.Options.Values, CreateNamespace: true, Description: "csccm install",
	})
	if err != nil {
		in.Progress.Fail("")
		return in.Cluster.Explain(err)
	}
	in.facts.release = release
	in.Progress.Done("revision %d, chart %s", release.Revision, release.ChartVersion)
	return nil
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
		in.Progress.Fail("")
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
	if in.Options.SkipTaint {
		return nil
	}
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	in.plan.Nodes = plan
	if !plan.Needed() {
		return nil
	}
	if in.Options.SnapshotDir != "" {
		path, err := taint.TakeSnapshot(in.facts.nodes, in.Cluster.Server, in.Clock.Now()).Write(in.Options.SnapshotDir)
		if err != nil {
			return err
		}
		in.Progress.Info("the nodes as they were: %s", path)
	}
	e := in.executor()
	in.Progress.Step("Initialising node %s, alone at first", plan.Canary)
	if err := e.Canary(ctx, plan); err != nil {
		in.Progress.Fail("")
		return err
	}
	in.Progress.Done("")
	if len(plan.Rest) == 0 {
		return nil
	}
	in.Progress.Step("Initialising %s", count(len(plan.Rest), "more node"))
	if err := e.Rest(ctx, plan); err != nil {
		in.Progress.Fail("")
		return err
	}
	in.Progress.Done("")
	return nil
}

// postflight runs the checks of an installed controller.
func (in *Installer) postflight(ctx context.Context) error {
	in.Progress.Step("Checks after the install")
	return in.runChecks(ctx, &check.Env{
		Cluster: in.Cluster, CloudStack: in.cloud, CloudConfig: in.config, Namespace: in.Cluster.Namespace,
		Release: in.Options.Release, RequiredCommands: in.Required, OptionalCommands: in.Optional, Clock: in.Clock,
	}, check.PhaseInstalled)
}

// Result is what a finished install says.
type Result struct {
	SchemaVersion int      `json:"schemaVersion"`
	Release       string   `json:"release"`
	Namespace     string   `json:"namespace"`
	Revision      int      `json:"revision"`
	ChartVersion  string   `json:"chartVersion"`
	AppVersion    string   `json:"appVersion"`
	Nodes         int      `json:"nodes"`
	Initialised   int      `json:"initialised"`
	Command       []string `json:"command"` // that repeats the install, without secrets
}

func (in *Installer) summary(ctx context.Context) error {
	release := in.facts.release
	r := Result{
		SchemaVersion: 1, Release: release.Name, Namespace: in.Cluster.Namespace, Revision: release.Revision,
		ChartVersion: release.ChartVersion, AppVersion: release.AppVersion, Command: in.FlagLine(),
	}
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	r.Nodes, r.Initialised = len(plan.Items), done(plan)
	if in.Options.JSON {
		e := json.NewEncoder(in.Out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err = fmt.Fprintf(in.Out, `cloudstack-ccm %s runs in namespace %s; %d of %s initialised.
Check it at any time:  csccm doctor%s
The same again:        %s
`, r.AppVersion, r.Namespace, r.Initialised, count(r.Nodes, "node"), in.namespaceFlag(), shellLine(r.Command))
	return err
}

func done(p *taint.Plan) int {
	n := 0
	for _, it := range p.Items {
		if it.State == taint.StateDone {
			n++
		}
	}
	return n
}

func (in *Installer) namespaceFlag() string {
	if in.Cluster.Namespace == "kube-system" {
		return ""
	}
	return " -n " + in.Cluster.Namespace
}

// FlagLine is the command that repeats this install without questions. It names
// where secrets come from, never what they are.
func (in *Installer) FlagLine() []string {
	o, c := &in.Options, &in.Options.Credentials
	line := []string{"csccm", "install"}
	add := func(flag, value string) {
		if value != "" {
			line = append(line, flag, value)
		}
	}
	if in.Cluster.Namespace != "kube-system" {
		add("--namespace", in.Cluster.Namespace)
	}
	if o.Release != DefaultRelease {
		add("--release", o.Release)
	}
	if c.Source != SourceSecret {
		add("--api-url", c.APIURL)
		add("--ca-file", c.CAFile)
		if c.SSLNoVerify {
			line = append(line, "--ssl-no-verify")
		}
	}
	switch c.Source {
	case SourceAdmin:
		if c.AdminUser != "" {
			add("--admin-user", c.AdminUser)
			add("--admin-domain", c.AdminDomain)
			add("--admin-password-file", "FILE")
		} else {
			line = append(line, "--admin-api-key-file", "FILE", "--admin-secret-key-file", "FILE")
		}
		add("--domain", c.Domain)
		add("--account", c.Account)
		add("--user", c.User)
		add("--role-name", c.Role)
		if c.CreateAccount {
			line = append(line, "--create-account")
		}
	case SourceKeys:
		line = append(line, "--api-key-file", "FILE", "--secret-key-file", "FILE")
	case SourceSecret, SourceUnset:
	}
	add("--project", o.Project)
	add("--zone", o.Zone)
	add("--region", o.Region)
	add("--cluster-id", o.ClusterID)
	add("--chart", o.ChartRef)
	line = append(line, o.ValueFlags...)
	return append(line, "--yes")
}

// shellLine quotes for a POSIX shell where needed.
func shellLine(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'`$&|;<>()*?[]#~!{}\\") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
