// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/takeover"
)

// takeoverFlags are the flags of takeover.
type takeoverFlags struct {
	o               takeover.Options
	fromPredecessor bool
	clusterID       string
	undo            bool
}

func newTakeoverCommand(g *cli.Globals) *cobra.Command {
	f := &takeoverFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "takeover",
		Short: "Replace another provider without loss of traffic",
		Long: `takeover finds another cloud controller manager for CloudStack in the cluster
(Apache's, also that of CloudStack Kubernetes Service, or Leaseweb's), shows for each
Service what csccm's controller would do differently, and replaces it. Addresses and
rules stay; two controllers never act at once.

What users of a Service would notice needs --accept SERVICE, or --pin SERVICE, which
keeps the current state with an annotation. On a terminal csccm asks.

csccm install does all of this. takeover alone is for charts that something else
installs: it prints what comes next; run it again after that step.

The old controller stays, with no Pods, and --undo goes back to it. What --accept
has changed stays changed.`,
		Example: `  # look only
  csccm takeover --dry-run

  # keep the current state where an annotation can, agree to the rest
  csccm takeover --pin all --accept all --yes

  # back to the old controller
  csccm takeover --undo`,
	}, cli.ChangingCloud, func(ctx context.Context, _ []string) error { return f.run(ctx, g) })
	flags := cmd.Flags()
	flags.BoolVar(&f.fromPredecessor, "from-predecessor", false, fromPredecessorUsage)
	flags.StringVar(&f.clusterID, "cluster-id", "", "name of this cluster in tags, if the chart is given one")
	flags.StringSliceVar(&f.o.Accept, "accept", nil, "agree to the changes of this Service (namespace/name, or all)")
	flags.StringSliceVar(&f.o.Pin, "pin", nil, "keep the current state of this Service by an annotation (namespace/name, or all)")
	flags.BoolVar(&f.undo, "undo", false, "go back to the old controller")
	completeConsent(g, cmd)
	return cmd
}

// completeConsent completes the words that --accept and --pin take: Services, and all of them.
func completeConsent(g *cli.Globals, cmd *cobra.Command) {
	services := cli.CompleteFrom(g, func(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
		names, err := plan.ServiceNames(ctx, kube)
		return append([]string{takeover.All}, names...), err
	})
	cli.CompleteFlag(cmd, "accept", services)
	cli.CompleteFlag(cmd, "pin", services)
}

func (f *takeoverFlags) run(ctx context.Context, g *cli.Globals) error {
	if err := takeover.ConsentNames(f.o.Accept, f.o.Pin); err != nil {
		return err
	}
	if f.undo && (len(f.o.Accept) > 0 || len(f.o.Pin) > 0) {
		return cli.Usagef("--undo goes back to what was: leave out --accept and --pin")
	}
	body := func(e *engine.Env, cs *cloud.Cloud) error {
		if f.undo {
			return takeover.Undo(ctx, e, cs, f.o)
		}
		return takeover.Run(ctx, e, cs, f.clusterID, f.o)
	}
	if !f.fromPredecessor {
		return g.OnCloud(ctx, body)
	}
	if g.CloudConfig != "" {
		return cli.Usagef("--cloud-config and --from-predecessor are both given; give one")
	}
	c, err := g.Cluster(ctx)
	if err != nil {
		return err
	}
	cs, err := takeover.Connect(ctx, c, g.Release)
	if err != nil {
		return err
	}
	defer cs.Close()
	if _, err := fmt.Fprintf(g.ErrOut, "Credentials: %s\n", cs.From); err != nil {
		return err
	}
	return g.On(c, func(e *engine.Env) error { return body(e, cs) })
}
