// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/taint"
)

// taintFlags are the flags of taint.
type taintFlags struct {
	o    taint.Options
	undo bool
}

func newTaintCommand(g *cli.Globals) *cobra.Command {
	f := &taintFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "taint [NODE...]",
		Short: "Have the controller initialise existing nodes, one first",
		Long: `taint has the controller initialise nodes that were in the cluster before it. It sets
the taint ` + taint.Key + `, which
kubelets set on new nodes alone, with the effect PreferNoSchedule: no Pod is moved,
and nothing is kept from being scheduled.

Every gate must pass, or be skipped with --skip-gate. One worker goes first and alone,
the control plane last. A node that is not initialised in time loses the taint again,
and csccm stops.

Without arguments it takes every node that needs it; a node that is named is
initialised again. --undo restores the labels; a provider ID cannot be changed.`,
		Example: `  # look only
  csccm taint --dry-run

  # labels again as CloudStack has them, of these nodes
  csccm taint worker-1 worker-2

  # five nodes at a time after the first
  csccm taint --max-parallel 5 --yes

  # labels as they were
  csccm taint --undo`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.CompleteFrom(g, cluster.NodeNames),
	}, cli.ChangingCloud, func(ctx context.Context, args []string) error {
		f.o.Nodes = args
		return f.run(ctx, g)
	})
	flags := cmd.Flags()
	flags.BoolVar(&f.o.ReplaceNoExecute, "replace-no-execute", false, "where a node has the taint with the effect NoExecute, which evicts Pods, make it PreferNoSchedule")
	flags.StringSliceVar(&f.o.SkipGates, "skip-gate", nil, "pass over this gate: "+strings.Join(taint.Gates(), ", "))
	flags.IntVar(&f.o.MaxParallel, "max-parallel", 1, "nodes at a time, after the first")
	flags.DurationVar(&f.o.PerNode, "node-timeout", taint.DefaultPerNode, "how long the controller may take for a node")
	flags.BoolVar(&f.undo, "undo", false, "set back the labels of the nodes that csccm tainted, and take its own taints away")
	cli.CompleteFlag(cmd, "skip-gate", cli.OneOf(taint.Gates()...))
	return cmd
}

// validate checks what needs no connection.
func (f *taintFlags) validate() error {
	switch {
	case f.o.MaxParallel < 1:
		return cli.Usagef("--max-parallel %d must be 1 or more", f.o.MaxParallel)
	case f.undo && (len(f.o.Nodes) > 0 || f.o.ReplaceNoExecute):
		return cli.Usagef("--undo sets back what the nodes' annotations say: leave out the nodes and --replace-no-execute")
	}
	if err := cli.Positive("--node-timeout", f.o.PerNode); err != nil {
		return err
	}
	for _, gate := range f.o.SkipGates {
		if !slices.Contains(taint.Gates(), gate) {
			return cli.Usagef("--skip-gate %q is none of %s", gate, strings.Join(taint.Gates(), ", "))
		}
	}
	return nil
}

func (f *taintFlags) run(ctx context.Context, g *cli.Globals) error {
	if err := f.validate(); err != nil {
		return err
	}
	if !f.undo {
		return g.OnCloud(ctx, func(e *engine.Env, cs *cloud.Cloud) error { return taint.Run(ctx, e, cs, f.o) })
	}
	c, err := g.Cluster(ctx)
	if err != nil {
		return err
	}
	return g.On(c, func(e *engine.Env) error { return taint.Undo(ctx, e) })
}
