// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/commands/explain"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/status"
)

// doctorFlags are the flags of doctor alone.
type doctorFlags struct {
	only, skip []string
	phase      string
	watch      cli.WatchFlags
	probe      bool
	probeImage string
	explain    string
}

const phaseAuto = "auto"

var phases = []string{phaseAuto, string(check.PhasePreflight), string(check.PhaseInstalled)}

// probeTimeout is how long a check may take if it waits for Pods that read the kubelets' command lines.
const probeTimeout = 3 * time.Minute

func newDoctorCommand(g *cli.Globals) *cobra.Command {
	f := &doctorFlags{}
	var cmd *cobra.Command
	cmd = g.Command(&cobra.Command{
		Use:         "doctor",
		Short:       "Check cluster, CloudStack and controller, with remedies",
		Annotations: cli.Outputs("text", "short", "json", "yaml"),
	}, cli.FlagRelease|cli.FlagCloud|cli.FlagFailOn, func(ctx context.Context, _ []string) error {
		if cmd.Flags().Changed("explain") {
			return f.explained(g, cmd.LocalFlags())
		}
		return f.run(ctx, g)
	})

	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "run only these checks: codes (NODE-001) or groups (NODE)")
	flags.StringSliceVar(&f.skip, "skip", nil, "leave out these checks: codes or groups")
	flags.StringVar(&f.phase, "phase", phaseAuto,
		"preflight, installed, or auto: preflight if the controller is not installed")
	f.watch.Add(cmd)
	flags.BoolVar(&f.probe, "probe-pod", false,
		"run a short Pod (hostPID, no privileges) on nodes whose kubelet cannot be asked, to read its command line")
	flags.StringVar(&f.probeImage, "probe-image", kubelet.DefaultProbeImage,
		"image of that Pod; it needs sh, grep and tr")
	flags.StringVar(&f.explain, "explain", "",
		"explain a check's code, an alert, or the reason of an Event or a condition, and check nothing")
	cli.CompleteFlag(cmd, "explain", cli.OneOf(explain.Names()...))
	cli.CompleteFlag(cmd, "only", cli.OneOf(checkCodes()...))
	cli.CompleteFlag(cmd, "skip", cli.OneOf(checkCodes()...))
	cli.CompleteFlag(cmd, "phase", cli.OneOf(phases...))
	return cmd
}

func (f *doctorFlags) run(ctx context.Context, g *cli.Globals) error {
	if f.probe && f.probeImage == "" {
		return cli.Usagef("--probe-pod needs --probe-image")
	}
	if err := (check.Selection{Only: f.only, Skip: f.skip}).Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	if !slices.Contains(phases, f.phase) {
		return cli.Usagef("--phase %q is none of %s", f.phase, strings.Join(phases, ", "))
	}
	return looking(ctx, g, &f.watch, func(ctx context.Context, c *cluster.Cluster, out io.Writer) (string, error) {
		return f.once(ctx, g, c, out)
	})
}

// explained writes the explanation that --explain asks for.
func (f *doctorFlags) explained(g *cli.Globals, flags *pflag.FlagSet) error {
	other := ""
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "explain" {
			other = f.Name
		}
	})
	if other != "" {
		return cli.Usagef("--explain checks nothing: not with --%s", other)
	}
	if g.Format == "short" {
		return cli.Usagef("-o %s is for checks: --explain has text, json and yaml", g.Format)
	}
	topic, err := explain.Find(f.explain)
	if err != nil {
		return cli.Usagef("--explain: %w", err)
	}
	return g.Show(topic, func(w io.Writer) error { return topic.WriteText(w, g.Style(g.Out)) })
}

// looking runs once on the cluster of the release, repeatedly if the watch flags say so. The cluster need not answer:
// the checks report that.
func looking(
	ctx context.Context, g *cli.Globals, watch *cli.WatchFlags,
	once func(context.Context, *cluster.Cluster, io.Writer) (string, error),
) error {
	if err := watch.Validate(); err != nil {
		return err
	}
	c, err := cluster.New(g.Kube)
	if err != nil {
		return err
	}
	if _, c.Silent = c.Ping(ctx); c.Silent == nil {
		err = cli.ReleaseHere(ctx, c, g.Release)
	}
	if err != nil {
		return err
	}

	return watch.Repeat(ctx, g, func(ctx context.Context, out io.Writer) (string, error) {
		defer func() { c.Silent = nil }() // the next round tries again
		return once(ctx, c, out)
	})
}

// openChecks returns the codes of the checks that did not pass.
func openChecks(results []check.Result) string {
	var codes []string
	for _, r := range results {
		if o := r.Outcome; o != check.OK && o != check.Skipped {
			codes = append(codes, r.Code)
		}
	}
	return strings.Join(codes, ", ")
}

// once runs the checks and writes their report. It returns the codes of the checks that did not pass.
func (f *doctorFlags) once(
	ctx context.Context, g *cli.Globals, c *cluster.Cluster, out io.Writer,
) (open string, err error) {
	sel := check.Selection{Only: f.only, Skip: f.skip, Phase: check.Phase(f.phase)}
	if f.phase == phaseAuto {
		sel.Phase = inspect.PhaseOf(ctx, c, g.Release)
	}

	env, closeEnv := inspect.Connect(ctx, c, g.Style(g.Out), g.Release, g.CloudConfig, sel.Phase)
	defer closeEnv()
	if f.probe {
		env.ProbePod, sel.Timeout = &kubelet.ProbeOptions{Image: f.probeImage}, probeTimeout
	}

	var r check.Report
	checking(g, func(step func(check.Result)) { r, _ = inspect.Run(ctx, env, sel, step) })
	open, failOn := openChecks(r.Checks), check.Severity(g.FailOn)
	if g.Format == "json" || g.Format == "yaml" {
		err = report.Encode(out, g.Format, r)
	} else {
		err = r.WriteText(out,
			check.TextOptions{Style: g.Style(g.Out), Short: g.Format == "short", Verbose: g.Verbosity > 0})
	}
	if err != nil {
		return open, err
	}

	if n := r.Unfinished; n > 0 {
		return open, cutOff(ctx, n, len(r.Checks))
	}

	if err := r.Err(failOn); err != nil {
		return open, err
	}

	if f.phase == phaseAuto && sel.Phase == check.PhasePreflight && env.NoCloud != "" && r.Summary.Skipped > 0 {
		return open, report.CheckFailed(
			"run csccm install; to check before that, give --phase preflight --cloud-config FILE",
			"the controller is not installed in namespace %s, and without credentials %s skipped",
			c.Namespace, english.Plural(r.Summary.Skipped, "check was", "checks were"),
		)
	}

	return open, nil
}

// cutOff returns an error of one line: what ended a run of checks, and how many had no result yet.
func cutOff(ctx context.Context, unfinished, all int) error {
	return inTime(ctx, fmt.Errorf("%w: %d of %d checks had not ended", context.Cause(ctx), unfinished, all))
}

// inTime adds a remedy to the error of a command that --timeout has ended.
func inTime(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), cli.ErrTimeout) {
		return report.Remedied(err, "raise --timeout; 0 means never")
	}
	return err
}

// checking shows the progress of do: on a terminal a counter of finished checks, with -v a line for each check.
func checking(g *cli.Globals, do func(step func(check.Result))) {
	terminal := g.Style(g.ErrOut).TTY
	p := g.Progress()
	p.Quiet = p.Quiet || !terminal && g.Verbosity == 0
	defer p.Close()
	if terminal {
		p.Step("running checks")
	}

	done := 0
	do(func(r check.Result) {
		done++
		switch {
		case terminal:
			p.Retitle("running checks: %d done, %s", done, r.Code)
		case !r.Unfinished: // unfinished checks are counted at the end
			p.Info("%s %s after %s", r.Code, r.Outcome, time.Duration(r.DurationMs)*time.Millisecond)
		}
	})

	p.Clear()
}

func newStatusCommand(g *cli.Globals) *cobra.Command {
	watch := cli.WatchFlags{}
	cmd := g.Command(&cobra.Command{
		Use:   "status",
		Short: "Show controller, nodes, Services and problems",
	}, cli.FlagRelease|cli.FlagCloud|cli.FlagFailOn, func(ctx context.Context, _ []string) error {
		return looking(ctx, g, &watch, func(ctx context.Context, c *cluster.Cluster, out io.Writer) (string, error) {
			env, closeEnv := inspect.Connect(ctx, c, g.Style(g.Out), g.Release, g.CloudConfig, check.PhaseInstalled)
			defer closeEnv()
			var s *status.Status
			checking(g, func(step func(check.Result)) {
				s = status.New(inspect.Run(ctx, env, check.Selection{Phase: check.PhaseInstalled}, step))
			})
			open := openChecks(s.Checks.Problems)
			if err := writeStatus(g, &watch, out, s); err != nil {
				return open, err
			}
			if n := s.Report.Unfinished; n > 0 {
				return open, cutOff(ctx, n, len(s.Report.Checks))
			}
			return open, s.Report.Err(check.Severity(g.FailOn))
		})
	})

	watch.Add(cmd)
	return cmd
}

func writeStatus(g *cli.Globals, watch *cli.WatchFlags, out io.Writer, s *status.Status) error {
	if g.Format != "text" {
		return report.Encode(out, g.Format, s)
	}
	style := g.Style(g.Out)
	return s.WriteText(out, style, g.Verbosity > 0 || !style.TTY && !watch.On) // a pipe gets all of it
}

// checkCodes returns the codes of all checks, each with its title, for shell completion.
func checkCodes() (out []string) {
	for _, c := range check.All() {
		out = append(out, c.Code+"\t"+c.Title)
	}
	return out
}
