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

	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rollout"
)

// operationFlags are shared by the commands that change an installed controller.
type operationFlags struct {
	release        string
	journal        string
	dryRun         dryRun
	rolloutTimeout time.Duration
	rollout        bool // the command waits for one
}

func (f *operationFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.release, "release", install.DefaultRelease, "name of the Helm release")
	flags.StringVar(&f.journal, "journal", "", "file for the record of what is done (default in the user's state folder)")
	addDryRun(cmd, &f.dryRun)
}

func (f *operationFlags) addRollout(cmd *cobra.Command) {
	f.rollout = true
	cmd.Flags().DurationVar(&f.rolloutTimeout, "rollout-timeout", rollout.DefaultTimeout, "how long the controller's Pods may take to start")
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

// read judges the flags; that needs no connection.
func (f *operationFlags) read(g *globals) (format string, dry, server bool, err error) {
	if format, err = g.wantOutput("text", "json", "yaml"); err != nil {
		return "", false, false, err
	}
	if f.rollout {
		if err = positive("--rollout-timeout", f.rolloutTimeout); err != nil {
			return "", false, false, err
		}
	}
	dry, server, err = f.dryRun.read()
	return format, dry, server, err
}

// env connects and makes what the command runs with.
func (f *operationFlags) env(ctx context.Context, g *globals, command string) (*engine.Env, error) {
	format, dry, server, err := f.read(g)
	if err != nil {
		return nil, err
	}
	c, err := g.cluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := releaseHere(ctx, c, f.release); err != nil {
		return nil, err
	}
	client, err := helm.New(g.kube, c.Namespace, g.debugf())
	if err != nil {
		return nil, err
	}
	e := &engine.Env{
		Cluster: c, Helm: client, Prompt: g.prompter(), Progress: g.progress(), Out: g.out, ErrOut: g.errOut, Clock: clock.RealClock{},
		Release: f.release, Yes: g.yes, DryRun: dry, Output: format, Journal: journalPath(g, f.journal, command),
		RolloutTimeout: f.rolloutTimeout, PodLogs: podLogs(c),
	}
	if !dry || server {
		e.Diff = differ(g, c)
	}
	return e, nil
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
