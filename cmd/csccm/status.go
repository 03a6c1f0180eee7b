// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/status"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
)

type statusFlags struct {
	failOn      string
	release     string
	cloudConfig string
	watch       watchFlags
}

var statusFormats = []string{"text", "json", "yaml"}

func newStatusCommand(g *globals) *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show controller, nodes, Services and open problems on one screen",
		Long: `status sums up what doctor looks at, on one screen: versions, the controller and
its leader, nodes and their VMs, Services of type LoadBalancer with their rules, and
the checks that did not pass. It changes nothing.

Exit codes are doctor's: 0 no check failed, 3 a check failed, 4 there are warnings
and --fail-on=warning is given, 124 --wait has waited in vain.`,
		Example: `  csccm status

  # all nodes and Services, not only the first
  csccm status -v

  # again every five seconds
  csccm status --watch --interval 5s

  # after a repair: until nothing fails
  csccm status --wait

  # for a program
  csccm status -o json | jq .nodes.initialised`,
		Args:        noArgs,
		Annotations: outputs(statusFormats...),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.failOn, "fail-on", string(check.SeverityError), "what makes the command fail: error or warning")
	flags.StringVar(&f.release, "release", engine.DefaultRelease, "name of the Helm release")
	flags.StringVar(&f.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	f.watch.add(cmd)
	completeFlag(cmd, "fail-on", fixedCompletion("error", "warning"))
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error { return f.run(ctx, g) })
	return cmd
}

func (f *statusFlags) run(ctx context.Context, g *globals) error {
	format, err := g.wantOutput(statusFormats...)
	if err != nil {
		return err
	}
	if err := f.watch.validate(); err != nil {
		return err
	}
	failOn, err := severity(f.failOn)
	if err != nil {
		return err
	}
	c, err := cluster.New(g.kube)
	if err != nil {
		return err
	}
	if err := releaseHere(ctx, c, f.release); err != nil {
		return err
	}
	open := ""
	once := func(ctx context.Context, out io.Writer) error {
		env, closeEnv := checkEnv(ctx, c, f.release, f.cloudConfig, check.PhaseInstalled)
		defer closeEnv()
		s := collect(ctx, g, env)
		open = openCodes(s.Checks.Problems)
		if err := f.write(g, out, format, s); err != nil {
			return err
		}
		if n, all := s.Unfinished(); n > 0 {
			return cutOff(ctx, n, all)
		}
		return s.Err(failOn)
	}
	if f.watch.wait > 0 {
		return g.wait(ctx, f.watch, func(ctx context.Context, out io.Writer) (string, error) {
			err := once(ctx, out)
			return open, err
		})
	}
	if f.watch.on {
		return g.watch(ctx, f.watch.interval, format, once)
	}
	return once(ctx, g.out)
}

// collect shows on a terminal how far it is.
func collect(ctx context.Context, g *globals, env *check.Env) *status.Status {
	progress, step := g.checkProgress()
	defer progress.Close()
	s := status.Collect(ctx, env, step)
	report.Clear(progress)
	return s
}

// watchedLines leave room for the line of --watch above and the cursor below, on a terminal of 24 lines.
const watchedLines = 21

func (f *statusFlags) write(g *globals, out io.Writer, format string, s *status.Status) error {
	switch format {
	case "json":
		return s.WriteJSON(out)
	case "yaml":
		return s.WriteYAML(out)
	}
	o := status.TextOptions{Style: g.style(g.out), All: g.verbosity > 0}
	if f.watch.on {
		o.Lines = watchedLines
	}
	return s.WriteText(out, o)
}

// severity reads --fail-on.
func severity(s string) (check.Severity, error) {
	switch v := check.Severity(s); v {
	case check.SeverityError, check.SeverityWarning:
		return v, nil
	default:
		return "", usagef("--fail-on %q is none of error, warning", s)
	}
}
