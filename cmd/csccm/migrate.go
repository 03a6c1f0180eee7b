// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/cache"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/commands/adopt"
	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/installer/takeover"
)

func newAdoptCommand(g *cli.Globals) *cobra.Command {
	return g.Command(&cobra.Command{
		Use:   "adopt [NAMESPACE/SERVICE...]",
		Short: "Let the controller release addresses with their Services",
		Args:  cobra.ArbitraryArgs,
	}, cli.ChangingCloud, func(ctx context.Context, args []string) error {
		services, err := plan.Select(args)
		if err != nil {
			return cli.Usage(err)
		}
		return g.OnCloud(ctx, func(e *engine.Env, cs *access.Cloud) error { return adopt.Run(ctx, e, cs, services) })
	})
}

func newMigrateRulesCommand(g *cli.Globals) *cobra.Command {
	undo := false
	cmd := g.Command(&cobra.Command{
		Use:   "migrate-rules",
		Short: "Rename load balancer rules of older providers in place",
	}, cli.ChangingCloud, func(ctx context.Context, _ []string) error {
		return g.OnCloud(ctx, func(e *engine.Env, cs *access.Cloud) error { return migrate.Run(ctx, e, cs, undo) })
	})
	cmd.Flags().BoolVar(&undo, "undo", false, "give rules their former names again")
	return cmd
}

func newTaintCommand(g *cli.Globals) *cobra.Command {
	o, undo := taint.Options{}, false
	cmd := g.Command(&cobra.Command{
		Use:               "taint [NODE...]",
		Short:             "Have the controller initialise existing nodes, one first",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.CompleteFrom(g, cluster.NodeNames),
	}, cli.ChangingCloud, func(ctx context.Context, args []string) error {
		o.Nodes = args
		if undo && len(o.Nodes) > 0 {
			return cli.Usagef("--undo restores every node that csccm tainted, and takes no node names")
		}

		if err := checkLimits(&o.Limits); err != nil {
			return err
		}

		for _, gate := range o.SkipGates {
			if !slices.Contains(taint.Gates(), gate) {
				return cli.Usagef("--skip-gate %q is none of %s", gate, strings.Join(taint.Gates(), ", "))
			}
		}

		if !undo {
			return g.OnCloud(ctx, func(e *engine.Env, cs *access.Cloud) error { return taint.Run(ctx, e, cs, o) })
		}

		c, err := g.Cluster(ctx)
		if err != nil {
			return err
		}

		return g.On(c, func(e *engine.Env) error { return taint.Undo(ctx, e) })
	})

	flags := cmd.Flags()
	flags.StringSliceVar(&o.SkipGates, "skip-gate", nil, "skip this gate: "+strings.Join(taint.Gates(), ", "))
	flags.BoolVar(&undo, "undo", false,
		"restore the labels of the nodes that csccm tainted, and remove its taints")
	addLimitFlags(flags, &o.Limits)
	cli.CompleteFlag(cmd, "skip-gate", cli.OneOf(taint.Gates()...))
	return cmd
}

func newTakeoverCommand(g *cli.Globals) *cobra.Command {
	o := takeover.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "takeover",
		Short: "Replace another provider without loss of traffic",
	}, cli.ChangingCloud, func(ctx context.Context, _ []string) error {
		if err := consent(o.Adopt, o.Accept, o.Pin); err != nil {
			return err
		}
		if o.Undo && (len(o.Accept)+len(o.Pin) > 0 || o.Adopt != "") {
			return cli.Usagef("--undo goes back to what was: leave out --accept, --pin and --adopt-addresses")
		}
		return g.OnCloud(ctx, func(e *engine.Env, cs *access.Cloud) error { return takeover.Run(ctx, e, cs, o) })
	})

	flags := cmd.Flags()
	flags.StringVar(&o.ClusterID, "cluster-id", "", "name of this cluster in tags, if the chart is given one")
	flags.BoolVar(&o.Undo, "undo", false, "go back to the old controller")
	addConsent(cmd, &o.Accept, &o.Pin, &o.Adopt)
	return cmd
}

// consent validates the values of --accept, --pin and --adopt-addresses.
func consent(adopt string, lists ...[]string) error {
	if adopt != "" && adopt != "yes" && adopt != "no" {
		return cli.Usagef("--adopt-addresses %q is neither yes nor no", adopt)
	}
	for _, n := range slices.Concat(lists...) {
		namespace, name, err := cache.SplitMetaNamespaceKey(n)
		if n != takeover.All && (err != nil || namespace == "" || name == "") {
			return cli.Usagef("--accept or --pin %q is neither NAMESPACE/NAME of a Service nor %s", n, takeover.All)
		}
	}
	return nil
}

// addConsent adds the flags that agree to a takeover's changes.
func addConsent(cmd *cobra.Command, accept, pin *[]string, adopt *string) {
	cmd.Flags().StringSliceVar(accept, "accept", nil,
		"takeover: agree to the changes of this Service (namespace/name, or all)")
	cmd.Flags().StringSliceVar(pin, "pin", nil,
		"takeover: keep the current state of this Service by an annotation (namespace/name, or all)")
	cmd.Flags().StringVar(adopt, "adopt-addresses", "",
		"takeover: release addresses that the old provider acquired with their Services: yes or no (default yes, "+
			"which is asked)")
	cli.CompleteFlag(cmd, "adopt-addresses", cli.OneOf("yes", "no"))
}
