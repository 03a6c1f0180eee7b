// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/lbtest"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/plan"
	"github.com/csccm/csccm/installer/report"
)

// exitToDo is the exit code of plan --detailed-exitcode when the plan has changes. Without that flag, 2 means a usage
// error; with it, usage errors exit with 1.
const exitToDo = 2

func newPlanCommand(g *cli.Globals) *cobra.Command {
	clusterID, detailed := "", false
	cmd := g.Command(&cobra.Command{
		Use:   "plan [NAMESPACE/NAME...]",
		Short: "Show what the controller would do for each Service",
		Args:  cobra.ArbitraryArgs,
	}, cli.FlagRelease|cli.FlagCloud,
		func(ctx context.Context, args []string) error { return runPlan(ctx, g, clusterID, detailed, args) })
	cmd.Flags().Lookup("release").Usage = "name of the Helm release whose settings count"
	cmd.Flags().StringVar(&clusterID, "cluster-id", "",
		"name of the cluster in tags, instead of the controller's own setting")
	cmd.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit with 2 if the plan has changes")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return planError(run(cmd, args), detailed) }
	return cmd
}

// planError makes errors exit with 1 instead of 2 if --detailed-exitcode is set, because 2 then means that the plan has
// changes.
func planError(err error, detailed bool) error {
	var said *report.Error
	if !detailed || cli.ExitCode(err) != exitToDo || errors.As(err, &said) && said.Silent() {
		return err
	}
	return &report.Error{
		Err:  err,
		Fix:  cmp.Or(cli.RemedyOf(nil, err), "see csccm plan --help"),
		Code: report.ExitFailure,
	}
}

func runPlan(ctx context.Context, g *cli.Globals, clusterID string, detailed bool, names []string) error {
	services, err := plan.Select(names)
	if err != nil {
		return cli.Usage(err)
	}

	c, cs, err := g.Connect(ctx)
	if err != nil {
		return err
	}
	defer cs.Close()

	progress := g.Progress()
	progress.Quiet = progress.Quiet || !g.Style(g.ErrOut).TTY
	r, err := plan.OfCluster(ctx, c, cs, g.Release, clusterID, services, progress)
	progress.Close()
	if err != nil {
		return c.Explain(err)
	}

	text := func(w io.Writer) error {
		return r.WriteText(w, g.Style(w), g.Verbosity > 0)
	}
	if err := g.Show(r, text); err != nil {
		return err
	}

	switch {
	case r.Summary.Failed > 0:
		err := fmt.Errorf("%d of %d Services could not be planned", r.Summary.Failed, r.Summary.Services)
		return report.Remedied(err, cli.RemedyOf(nil, r.Cause))
	case detailed && r.ToDo():
		return &report.Error{Code: exitToDo}
	}

	return nil
}

func newTestCommand(g *cli.Globals) *cobra.Command {
	o := lbtest.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "test",
		Short: "Create a load balancer, call it, and remove it",
	}, cli.Changing, func(ctx context.Context, _ []string) error {
		if err := cli.Positive("--address-timeout", o.AddressTime); err != nil {
			return err
		}
		c, err := g.ClusterOfRelease(ctx)
		if err != nil {
			return err
		}
		return g.On(c, func(e *engine.Env) error { return lbtest.Run(ctx, e, o) })
	})

	flags := cmd.Flags()
	flags.StringVar(&o.Namespace, "in", "",
		"namespace of Service and Pods, which must exist (default a new one, which is removed)")
	flags.StringVar(&o.Image, "image", "", "image with the controller's program (default that of the controller)")
	flags.DurationVar(&o.AddressTime, "address-timeout", lbtest.DefaultAddressTime,
		"how long the Service may take to get its address")
	flags.BoolVar(&o.NoProxy, "skip-proxy", false, "leave the PROXY protocol out")
	cli.CompleteFlag(cmd, "in", cli.CompleteFrom(g, cluster.NamespaceNames))
	return cmd
}
