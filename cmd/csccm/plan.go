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
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/plan"
)

// exitToDo is plan's exit code with --detailed-exitcode when something is to do. Elsewhere 2 means usage, which is 1 then.
const exitToDo = 2

func newPlanCommand(g *cli.Globals) *cobra.Command {
	clusterID, detailed := "", false
	cmd := g.Command(&cobra.Command{
		Use:   "plan [NAMESPACE/NAME...]",
		Short: "Show what the controller would do for each Service",
		Long: `plan shows, for each Service of type LoadBalancer, what the controller would do in
CloudStack: + creates, ~ changes, - deletes. It changes nothing. Services can be named;
NAMESPACE/ stands for all of a namespace.

It plans with the flags of the controller of --release, or with the defaults before an
installation, and with the credentials of the controller, or those of --cloud-config.

With --detailed-exitcode the exit code is 0 if nothing is to do, 1 for an error (also
of usage), 2 if something is to do or a Service is refused.`,
		Example: `  # all Services
  csccm plan

  # one Service, and all of a namespace
  csccm plan shop/web apps/

  # in a pipeline: 2 means that something is to do
  csccm plan --detailed-exitcode -o json > plan.json

  # before the installation, with credentials from a file
  csccm plan --cloud-config ./cloud-config`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cli.CompleteFrom(g, plan.ServiceNames),
	}, cli.FlagRelease|cli.FlagCloud, func(ctx context.Context, args []string) error { return runPlan(ctx, g, clusterID, detailed, args) })
	cmd.Flags().Lookup("release").Usage = "name of the Helm release whose settings count"
	cmd.Flags().StringVar(&clusterID, "cluster-id", "", "name of the cluster in tags, instead of the controller's own setting")
	cmd.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit with 2 when something is to do")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if detailed {
			return planError(err)
		}
		return err
	}
	return cmd
}

// planError keeps exit code 2 for what the plan says.
func planError(err error) error {
	var said *report.ExitError
	if cli.ExitCode(err) != exitToDo || errors.As(err, &said) {
		return err
	}
	return &report.Error{Err: err, Fix: cmp.Or(cli.RemedyOf(nil, err), "see csccm plan --help"), Code: report.ExitFailure}
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
	if !g.Style(g.ErrOut).TTY {
		progress = report.Late(progress, slow)
	}
	r, err := plan.OfCluster(ctx, c, cs, g.Release, clusterID, services, progress)
	progress.Close()
	if err != nil {
		return c.Explain(err)
	}
	text := func(w io.Writer) error {
		return r.WriteText(w, plan.TextOptions{Style: g.Style(w), Verbose: g.Verbosity > 0})
	}
	if err := g.Show(r, text); err != nil {
		return err
	}
	switch {
	case r.Summary.Failed > 0:
		err := fmt.Errorf("%d of %d Services could not be looked at", r.Summary.Failed, r.Summary.Services)
		return report.Remedied(err, cli.RemedyOf(nil, r.Cause()))
	case detailed && r.ToDo():
		return &report.ExitError{Code: exitToDo}
	}
	return nil
}
