// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rollout"
)

// changeFlags are shared by the commands that change something.
type changeFlags struct {
	release        string
	journal        string
	cloudConfig    string
	dryRun         dryRun
	rolloutTimeout time.Duration

	cloud, rollout bool // what the command works with: CloudStack by the controller's credentials; the controller's Pods
}

func (f *changeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.release, "release", engine.DefaultRelease, "name of the Helm release")
	flags.StringVar(&f.journal, "journal", "", "file for the record of what is done (default in the user's state folder)")
	addDryRun(cmd, &f.dryRun)
}

func (f *changeFlags) addRollout(cmd *cobra.Command) {
	f.rollout = true
	cmd.Flags().DurationVar(&f.rolloutTimeout, "rollout-timeout", rollout.DefaultTimeout, "how long the controller's Pods may take to start")
}

// addCloud is for commands that need the credentials of the controller, or a file with others.
func (f *changeFlags) addCloud(cmd *cobra.Command) {
	f.cloud = true
	cmd.Flags().StringVar(&f.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
}

// positive refuses a time that leaves nothing to wait for.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return usagef("%s %s must be more than 0", flag, d)
	}
	return nil
}

// journalPath is the flag's, or a new file in the user's state folder.
func journalPath(g *globals, flag, command string) string {
	if flag != "" {
		return flag
	}
	return filepath.Join(stateDir(g.getenv), command+"-"+time.Now().UTC().Format("20060102T150405.000Z")+".jsonl")
}

// begin judges the flags, which needs no connection, and makes what the command runs with.
func (f *changeFlags) begin(g *globals, command string) (e *engine.Env, server bool, err error) {
	format, err := g.wantOutput("text", "json", "yaml")
	if err != nil {
		return nil, false, err
	}
	if f.rollout {
		if err = positive("--rollout-timeout", f.rolloutTimeout); err != nil {
			return nil, false, err
		}
	}
	dry, server, err := f.dryRun.read()
	if err == nil && f.cloud && dry && g.yes {
		err = errDryYes
	}
	return &engine.Env{
		Prompt: g.prompter(), Progress: report.Quiet(), Out: g.out, ErrOut: g.errOut, Clock: clock.RealClock{}, Interactive: g.interactive(), Style: g.style,
		Release: f.release, Yes: g.yes, DryRun: dry, Output: format, Journal: journalPath(g, f.journal, command), RolloutTimeout: f.rolloutTimeout,
	}, server, err
}

// env connects to the cluster of a release, and makes what the command runs with.
func (f *changeFlags) env(ctx context.Context, g *globals, command string) (*engine.Env, error) {
	e, server, err := f.begin(g, command)
	if err != nil {
		return nil, err
	}
	if e.Cluster, err = g.cluster(ctx); err != nil {
		return nil, err
	}
	if err := releaseHere(ctx, e.Cluster, f.release); err != nil {
		return nil, err
	}
	client, err := helm.New(g.kube, e.Cluster.Namespace, g.debugf())
	if err != nil {
		return nil, err
	}
	e.Helm, e.Progress, e.PodLogs = client, g.progress(), podLogs(e.Cluster)
	if !e.DryRun || server {
		e.Diff = differ(g, e.Cluster)
	}
	return e, nil
}

// withCloud connects to the cluster and to CloudStack, and runs body.
func (f *changeFlags) withCloud(ctx context.Context, g *globals, e *engine.Env, body func(*cloud.Cloud) error) error {
	c, cs, err := g.connect(ctx, f.cloudConfig)
	if err != nil {
		return err
	}
	defer cs.Close()
	e.Cluster, e.Progress = c, g.progress()
	defer e.Progress.Close()
	return body(cs)
}

// differ asks the API server by dry runs.
func differ(g *globals, c *cluster.Cluster) func(ctx context.Context, namespace, old, manifest string) ([]diff.Change, error) {
	return func(ctx context.Context, namespace, old, manifest string) ([]diff.Change, error) {
		mapper, err := g.kube.ToRESTMapper()
		if err != nil {
			return nil, err
		}
		objects, err := dynamic.NewForConfig(c.REST)
		if err != nil {
			return nil, err
		}
		d := &diff.Client{Dynamic: objects, Mapper: mapper, Namespace: namespace}
		return d.Manifests(ctx, old, manifest)
	}
}
