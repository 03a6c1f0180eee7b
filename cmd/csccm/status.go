// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/status"
)

type statusFlags struct{ watch cli.WatchFlags }

func newStatusCommand(g *cli.Globals) *cobra.Command {
	f := &statusFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "status",
		Short: "Show controller, nodes, Services and problems",
		Long: `status sums up what doctor looks at, on one screen: versions, the controller and
its leader, nodes and their VMs, Services of type LoadBalancer with their rules, and
the checks that did not pass. It changes nothing.

Exit codes are doctor's: 0 no check failed, 3 a check failed, 4 there are warnings
and --fail-on=warning is given, 124 --timeout is over.`,
		Example: `  csccm status

  # all nodes and Services, not only the first
  csccm status -v

  # again every five seconds
  csccm status --watch --interval 5s

  # after a repair: until nothing fails
  csccm status --wait

  # for a program
  csccm status -o json | jq .nodes.initialised`,
	}, cli.FlagRelease|cli.FlagCloud|cli.FlagFailOn, func(ctx context.Context, _ []string) error { return f.run(ctx, g) })
	f.watch.Add(cmd)
	return cmd
}

func (f *statusFlags) run(ctx context.Context, g *cli.Globals) error {
	if err := f.watch.Validate(); err != nil {
		return err
	}
	c, err := lookedAt(ctx, g)
	if err != nil {
		return err
	}
	return f.watch.Repeat(ctx, g, func(ctx context.Context, out io.Writer) (string, error) {
		env, closeEnv := check.Connect(ctx, c, g.Style(g.Out), g.Release, g.CloudConfig, check.PhaseInstalled)
		defer closeEnv()
		var s *status.Status
		checking(g, func(step func(check.Result)) { s = status.Collect(ctx, env, step) })
		open := check.Open(s.Checks.Problems)
		if err := f.write(g, out, s); err != nil {
			return open, err
		}
		if n, all := s.Unfinished(); n > 0 {
			return open, cutOff(ctx, n, all)
		}
		return open, s.Err(check.Severity(g.FailOn))
	})
}

// watchedLines leave room for the line of --watch above and the cursor below, on a terminal of 24 lines.
const watchedLines = 21

func (f *statusFlags) write(g *cli.Globals, out io.Writer, s *status.Status) error {
	if g.Format != "text" {
		return report.Encode(out, g.Format, s)
	}
	style := g.Style(g.Out)
	o := status.TextOptions{Style: style, All: g.Verbosity > 0 || !style.TTY && !f.watch.On} // a pipe has no screen
	if f.watch.On {
		o.Lines = watchedLines
	}
	return s.WriteText(out, o)
}
