// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/plural"
	"github.com/csccm/csccm/pkg/provider"
)

// doctorFlags are the flags of doctor alone.
type doctorFlags struct {
	only, skip  []string
	failOn      string
	phase       string
	release     string
	cloudConfig string
	watch       watchFlags
	probe       probeFlags
	open        string // codes of the last round that did not pass
}

const phaseAuto = "auto"

var doctorFormats = []string{"text", "short", "json", "yaml", "junit"}

func newDoctorCommand(g *globals) *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the cluster, CloudStack and the controller, and say what to do",
		Long: `doctor checks the cluster, CloudStack, the nodes, the controller and the load
balancers. It changes nothing (see --probe-pod). Each check has a code; what it looks
at and why it matters is in docs/checks.md.

The credentials are those of the controller, in Secret cloudstack-secret of the
namespace, or those of --cloud-config. Without either, the checks of CloudStack
are skipped.

Exit codes, the same in every format: 0 no check failed, 3 a check failed, nothing
could be judged, or no controller and no credentials are there, 4 there
are warnings and --fail-on=warning is given, 124 --wait has waited in vain.`,
		Example: `  # everything, for a person
  csccm doctor

  # only what is wrong, in one line each with its remedy
  csccm doctor -o short

  # before the installation, with credentials from a file
  csccm doctor --phase preflight --cloud-config ./cloud-config

  # the checks of nodes, and one more, for a program
  csccm doctor --only NODE,LB-001 -o json

  # in a pipeline: warnings fail too
  csccm doctor --fail-on warning --skip CKS-001 -o junit > doctor.xml

  # until nothing fails, for at most ten minutes
  csccm doctor --wait=10m

  # again every ten seconds, while something is being repaired
  csccm doctor -o short --watch`,
		Args:        noArgs,
		Annotations: outputs(doctorFormats...),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "run only these checks: codes (NODE-001) or groups (NODE)")
	flags.StringSliceVar(&f.skip, "skip", nil, "leave out these checks: codes or groups")
	flags.StringVar(&f.failOn, "fail-on", string(check.SeverityError), "what makes the command fail: error or warning")
	flags.StringVar(&f.phase, "phase", phaseAuto, "preflight, installed, or auto: installed if the Helm release exists")
	flags.StringVar(&f.release, "release", engine.DefaultRelease, "name of the Helm release")
	flags.StringVar(&f.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	f.watch.add(cmd)
	f.probe.add(cmd)
	completeCodes := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return check.Codes(), cobra.ShellCompDirectiveNoFileComp
	}
	_ = cmd.RegisterFlagCompletionFunc("only", completeCodes)
	_ = cmd.RegisterFlagCompletionFunc("skip", completeCodes)
	_ = cmd.RegisterFlagCompletionFunc("fail-on", fixedCompletion("error", "warning"))
	_ = cmd.RegisterFlagCompletionFunc("phase", fixedCompletion(phaseAuto, string(check.PhasePreflight), string(check.PhaseInstalled)))
	cmd.RunE = g.runE(func(ctx context.Context, _ []string) error { return doctor(ctx, g, f) })
	return cmd
}

func fixedCompletion(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

func doctor(ctx context.Context, g *globals, f *doctorFlags) error {
	format, err := g.wantOutput(doctorFormats...)
	if err != nil {
		return err
	}
	if f.watch.on && format == "junit" {
		return usagef("-o junit is one document: not with --watch")
	}
	if err := f.watch.validate(); err != nil {
		return err
	}
	if err := f.probe.validate(); err != nil {
		return err
	}
	sel := check.Selection{Only: f.only, Skip: f.skip}
	if err := sel.Validate(); err != nil {
		return usagef("%w", err)
	}
	if _, err := severity(f.failOn); err != nil {
		return err
	}
	switch f.phase {
	case phaseAuto, string(check.PhasePreflight), string(check.PhaseInstalled):
	default:
		return usagef("--phase %q is none of auto, preflight, installed", f.phase)
	}
	c, err := cluster.New(g.kube)
	if err != nil {
		return err
	}
	if err := releaseHere(ctx, c, f.release); err != nil {
		return err
	}
	if f.watch.wait > 0 {
		return g.wait(ctx, f.watch, func(ctx context.Context, out io.Writer) (string, error) {
			err := f.once(ctx, g, c, sel, format, out)
			return f.open, err
		})
	}
	if !f.watch.on {
		return f.once(ctx, g, c, sel, format, g.out)
	}
	return g.watch(ctx, f.watch.interval, format, func(ctx context.Context, out io.Writer) error {
		return f.once(ctx, g, c, sel, format, out)
	})
}

// once runs the checks and writes their report.
func (f *doctorFlags) once(ctx context.Context, g *globals, c *cluster.Cluster, sel check.Selection, format string, out io.Writer) error {
	if sel.Phase = check.Phase(f.phase); f.phase == phaseAuto {
		sel.Phase = phaseOf(ctx, c, f.release)
	}
	env, closeEnv := checkEnv(ctx, c, f.release, f.cloudConfig, sel.Phase)
	defer closeEnv()
	if env.ProbePod = f.probe.options(); env.ProbePod != nil {
		sel.Timeout = probeTimeout
	}
	r := runChecks(ctx, g, env, sel)
	f.open = openCodes(r.Checks)
	if err := writeReport(g, out, format, r, check.Severity(f.failOn)); err != nil {
		return err
	}
	if n := r.Unfinished(); n > 0 {
		return cutOff(ctx, n, len(r.Checks))
	}
	if err := r.Err(check.Severity(f.failOn)); err != nil {
		return err
	}
	if f.phase == phaseAuto && sel.Phase == check.PhasePreflight && env.NoCloudStack != "" && r.Summary.Skipped > 0 {
		return notInstalled(c.Namespace, r.Summary.Skipped)
	}
	return nil
}

// openCodes names the checks that did not pass.
func openCodes(results []check.Result) string {
	var codes []string
	for i := range results {
		switch results[i].Outcome {
		case check.Failed, check.Warning, check.Unknown:
			codes = append(codes, results[i].Code)
		case check.OK, check.Skipped:
		}
	}
	return strings.Join(codes, ", ")
}

// notInstalled says that what passed is not a working controller: there is none, and without credentials nothing of
// CloudStack could be judged.
func notInstalled(namespace string, skipped int) error {
	return report.Remedied(
		&report.ExitError{Code: report.ExitCheckFailed, Err: fmt.Errorf(
			"the controller is not installed in namespace %s, and without credentials %s skipped", namespace, skippedChecks(skipped))},
		"run csccm install; to check before that, give --phase preflight --cloud-config FILE")
}

func skippedChecks(n int) string {
	return plural.Count(n, "check") + " " + plural.Verb(n, "was", "were")
}

// cutOff says in one line what ended a run of checks, and how many of them were not judged.
func cutOff(ctx context.Context, unfinished, all int) error {
	return inTime(ctx, fmt.Errorf("%w: %d of %d checks had not ended", context.Cause(ctx), unfinished, all))
}

// inTime says how a run that --timeout has ended would come to its end.
func inTime(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return report.Remedied(err, "raise --timeout; 0 means never")
	}
	return err
}

// runChecks shows on a terminal how far it is.
func runChecks(ctx context.Context, g *globals, env *check.Env, sel check.Selection) check.Report {
	progress, step := g.checkProgress()
	defer progress.Close()
	r := check.Run(ctx, env, sel, step)
	report.Clear(progress)
	return r
}

// checkProgress counts on a terminal the checks that are done; elsewhere the report alone speaks, unless -v asks for
// a line for each check as soon as it has ended.
func (g *globals) checkProgress() (p report.Progress, step func(check.Result)) {
	terminal := g.style(g.errOut).TTY
	p = report.Quiet()
	if terminal || g.verbosity > 0 {
		p = g.progress()
	}
	if terminal {
		p.Step("running checks")
	}
	done := 0
	return p, func(r check.Result) {
		done++
		if terminal {
			report.Retitle(p, "running checks: %d done, %s", done, r.Code)
			return
		}
		if r.Unfinished {
			return // counted at the end
		}
		p.Info("%s %s after %s", r.Code, r.Outcome, time.Duration(r.DurationMs)*time.Millisecond)
	}
}

func writeReport(g *globals, out io.Writer, format string, r check.Report, failOn check.Severity) error {
	switch format {
	case "json":
		return r.WriteJSON(out)
	case "yaml":
		return r.WriteYAML(out)
	case "junit":
		return r.WriteJUnit(out, failOn)
	}
	return r.WriteText(out, check.TextOptions{Style: g.style(g.out), Short: format == "short", Verbose: g.verbosity > 0})
}

// phaseOf is PhaseInstalled when the cluster holds a record of the release. Where that cannot be
// read, the checks say why.
func phaseOf(ctx context.Context, c *cluster.Cluster, release string) check.Phase {
	list, err := c.Kube.CoreV1().Secrets(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + release, Limit: 1})
	if err == nil && len(list.Items) == 0 {
		return check.PhasePreflight
	}
	return check.PhaseInstalled
}

// checkEnv is what checks work with. Without credentials the checks of CloudStack are skipped before an
// installation, and fail after it.
func checkEnv(ctx context.Context, c *cluster.Cluster, release, cloudConfig string, phase check.Phase) (env *check.Env, closeEnv func()) {
	env = &check.Env{
		Cluster: c, Namespace: c.Namespace, Release: release,
		RequiredCommands: provider.RequiredCommands, OptionalCommands: provider.OptionalCommands,
	}
	cs, err := cloud.Of(ctx, c, cloudConfig)
	if err == nil {
		env.CloudStack, env.CloudConfig = cs.Client, cs.Config
		return env, cs.Close
	}
	var unreachable *cluster.Error
	switch {
	case errors.As(err, &unreachable):
		env.NoCloudStack = "the credentials could not be read: " + err.Error()
	case errors.Is(err, cloud.ErrNoCredentials) && phase != check.PhaseInstalled:
		env.NoCloudStack = err.Error()
	default:
		env.CloudStackErr = err
	}
	return env, func() {}
}
