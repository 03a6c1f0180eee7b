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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/explain"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
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

// probeTimeout is how long a check may take that waits for Pods which read the kubelets' command lines.
const probeTimeout = 3 * time.Minute

func newDoctorCommand(g *cli.Globals) *cobra.Command {
	f := &doctorFlags{}
	var cmd *cobra.Command
	cmd = g.Command(&cobra.Command{
		Use:   "doctor",
		Short: "Check cluster, CloudStack and controller, with remedies",
		Long: `doctor checks the cluster, CloudStack, the nodes, the controller and the load
balancers. It changes nothing (see --probe-pod). The checks are described in
` + check.HintBase + `

--explain says what a check's code, an alert of the chart, or the reason of an Event or
a condition means and how to resolve it. It needs neither a cluster nor a network.

The credentials are those of the controller, or those of --cloud-config. Without
either, the checks of CloudStack are skipped.

Exit codes: 0 no check failed, 3 a check failed or nothing could be checked, 4 there are
warnings and --fail-on=warning is given, 124 --timeout is over.`,
		Example: `  # everything, for a person
  csccm doctor

  # only what is wrong, in one line each with its remedy
  csccm doctor -o short

  # before the installation, with credentials from a file
  csccm doctor --phase preflight --cloud-config ./cloud-config

  # the checks of nodes, and one more, for a program
  csccm doctor --only NODE,LB-001 -o json

  # in a pipeline: warnings fail too
  csccm doctor --fail-on warning --skip CKS-001

  # until nothing fails, for at most ten minutes
  csccm doctor --wait --timeout 10m

  # again every ten seconds, while something is being repaired
  csccm doctor -o short --watch

  # what an alert, an Event's reason or a check means, and what to do
  csccm doctor --explain CloudStackCCMNoLeader
  csccm doctor --explain PortTaken -o json`,
		Annotations: cli.Outputs("text", "short", "json", "yaml"),
	}, cli.FlagRelease|cli.FlagCloud|cli.FlagFailOn, func(ctx context.Context, _ []string) error {
		if cmd.Flags().Changed("explain") {
			return f.explained(g, cmd.Flags())
		}
		return f.run(ctx, g)
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "run only these checks: codes (NODE-001) or groups (NODE)")
	flags.StringSliceVar(&f.skip, "skip", nil, "leave out these checks: codes or groups")
	flags.StringVar(&f.phase, "phase", phaseAuto, "preflight, installed, or auto: preflight if nothing of the controller is there")
	f.watch.Add(cmd)
	flags.BoolVar(&f.probe, "probe-pod", false, "run a short Pod (hostPID, no privileges) on nodes whose kubelet cannot be asked, to read its command line")
	flags.StringVar(&f.probeImage, "probe-image", kubelet.DefaultProbeImage, "image of that Pod; it needs sh, grep and tr")
	flags.StringVar(&f.explain, "explain", "", "explain a check's code, an alert, or the reason of an Event or a condition, and check nothing")
	cli.CompleteFlag(cmd, "explain", cli.OneOf(explain.Names()...))
	cli.CompleteFlag(cmd, "only", cli.OneOf(check.Codes()...))
	cli.CompleteFlag(cmd, "skip", cli.OneOf(check.Codes()...))
	cli.CompleteFlag(cmd, "phase", cli.OneOf(phases...))
	return cmd
}

func (f *doctorFlags) run(ctx context.Context, g *cli.Globals) error {
	if err := f.watch.Validate(); err != nil {
		return err
	}
	if f.probe && f.probeImage == "" {
		return cli.Usagef("--probe-pod needs --probe-image")
	}
	if err := (check.Selection{Only: f.only, Skip: f.skip}).Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	if !slices.Contains(phases, f.phase) {
		return cli.Usagef("--phase %q is none of %s", f.phase, strings.Join(phases, ", "))
	}
	c, err := lookedAt(ctx, g)
	if err != nil {
		return err
	}
	return f.watch.Repeat(ctx, g, func(ctx context.Context, out io.Writer) (string, error) { return f.once(ctx, g, c, out) })
}

// explained writes what a name means.
func (f *doctorFlags) explained(g *cli.Globals, flags *pflag.FlagSet) error {
	for _, other := range []string{"only", "skip", "phase", "watch", "wait", "interval", "probe-pod", "probe-image", "cloud-config", "fail-on", "release"} {
		if flags.Changed(other) {
			return cli.Usagef("--explain checks nothing: not with --%s", other)
		}
	}
	if g.Format == "short" {
		return cli.Usagef("-o %s is for checks: --explain has text, json and yaml", g.Format)
	}
	topic, err := explain.Find(f.explain)
	if err != nil {
		return cli.Usagef("--explain: %w", err)
	}
	topic = topic.Plain()
	return g.Show(topic, func(w io.Writer) error { return topic.WriteText(w, g.Style(g.Out)) })
}

// lookedAt is the cluster of the release, which need not answer: the checks say so.
func lookedAt(ctx context.Context, g *cli.Globals) (*cluster.Cluster, error) {
	c, err := cluster.New(g.Kube)
	if err == nil {
		err = cli.ReleaseHere(ctx, c, g.Release)
	}
	return c, err
}

// once runs the checks and writes their report. It names the checks that did not pass.
func (f *doctorFlags) once(ctx context.Context, g *cli.Globals, c *cluster.Cluster, out io.Writer) (open string, err error) {
	sel := check.Selection{Only: f.only, Skip: f.skip, Phase: check.Phase(f.phase)}
	if f.phase == phaseAuto {
		sel.Phase = check.PhaseOf(ctx, c, g.Release)
	}
	env, closeEnv := check.Connect(ctx, c, g.Style(g.Out), g.Release, g.CloudConfig, sel.Phase)
	defer closeEnv()
	if f.probe {
		env.ProbePod, sel.Timeout = &kubelet.ProbeOptions{Image: f.probeImage}, probeTimeout
	}
	var r check.Report
	checking(g, func(step func(check.Result)) { r = check.Run(ctx, env, sel, step) })
	open, failOn := check.Open(r.Checks), check.Severity(g.FailOn)
	if err := writeReport(g, out, r, failOn); err != nil {
		return open, err
	}
	if n := r.Unfinished(); n > 0 {
		return open, cutOff(ctx, n, len(r.Checks))
	}
	if err := r.Err(failOn); err != nil {
		return open, err
	}
	if f.phase == phaseAuto && sel.Phase == check.PhasePreflight && env.NoCloudStack != "" && r.Summary.Skipped > 0 {
		return open, check.NotInstalled(c.Namespace, r.Summary.Skipped)
	}
	return open, nil
}

// cutOff says in one line what ended a run of checks, and how many of them were not judged.
func cutOff(ctx context.Context, unfinished, all int) error {
	return inTime(ctx, fmt.Errorf("%w: %d of %d checks had not ended", context.Cause(ctx), unfinished, all))
}

// inTime says how a run that --timeout has ended would come to its end.
func inTime(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), cli.ErrTimeout) {
		return report.Remedied(err, "raise --timeout; 0 means never")
	}
	return err
}

// slow is how long a command that shows its result alone may take before it says what it waits for.
const slow = 2 * time.Second

// checking shows the progress of do: on a terminal a counter of finished checks, with -v a line for each check, and
// otherwise that it takes long.
func checking(g *cli.Globals, do func(step func(check.Result))) {
	terminal := g.Style(g.ErrOut).TTY
	p := g.Progress()
	if !terminal && g.Verbosity == 0 {
		p = report.Late(p, slow)
		p.Step("waiting for the API server and CloudStack")
	}
	defer p.Close()
	if terminal {
		p.Step("running checks")
	}
	done := 0
	do(func(r check.Result) {
		done++
		switch {
		case terminal:
			report.Retitle(p, "running checks: %d done, %s", done, r.Code)
		case !r.Unfinished: // those are counted at the end
			p.Info("%s %s after %s", r.Code, r.Outcome, time.Duration(r.DurationMs)*time.Millisecond)
		}
	})
	report.Clear(p)
}

func writeReport(g *cli.Globals, out io.Writer, r check.Report, failOn check.Severity) error {
	switch g.Format {
	case "json", "yaml":
		return report.Encode(out, g.Format, r)
	}
	return r.WriteText(out, check.TextOptions{Style: g.Style(g.Out), Short: g.Format == "short", Verbose: g.Verbosity > 0})
}
