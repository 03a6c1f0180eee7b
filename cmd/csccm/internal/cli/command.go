// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
)

// FlagSet is a set of the flags that several commands share.
type FlagSet int

// Flags that Command can add to a command.
const (
	FlagRelease FlagSet = 1 << iota
	FlagCloud           // --cloud-config: other credentials than the controller's
	FlagJournal
	FlagDryRun
	FlagRollout
	FlagFailOn
	FlagUnlock
)

// Changing are the flags of commands that change something. ChangingCloud are those of commands that do so with the
// controller's credentials.
const (
	Changing      = FlagRelease | FlagJournal | FlagDryRun
	ChangingCloud = Changing | FlagCloud
)

// shared holds the values of these flags. They can be global, because a process runs only one command.
type shared struct {
	Release, CloudConfig, Journal, FailOn string
	DryRun, ForceUnlock                   bool
	RolloutTimeout                        time.Duration

	running string         // name of the command, such as cks-create
	command *cobra.Command // the running command
	Format  string         // output format, from -o
}

// DryRunUsage is the help text of --dry-run.
const DryRunUsage = "read, check and show the plan; change nothing"

// OutputsAnnotation is the annotation with the formats that a command supports in -o.
const OutputsAnnotation = "csccm.io/outputs"

// Outputs returns the annotations of a command whose formats in -o are not text, json and yaml.
func Outputs(formats ...string) map[string]string {
	return map[string]string{OutputsAnnotation: strings.Join(formats, " ")}
}

// Command adds flags and a body to a command. The body runs after the flags are validated, for at most --timeout. A
// command without Args takes no arguments.
func (g *Globals) Command(
	cmd *cobra.Command, has FlagSet, body func(ctx context.Context, args []string) error,
) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = NoArgs
	}

	if cmd.Annotations == nil {
		cmd.Annotations = Outputs("text", "json", "yaml")
	}

	flags := cmd.Flags()
	if has&FlagRelease != 0 {
		flags.StringVar(&g.Release, "release", cluster.DefaultRelease, "name of the Helm release")
	}

	if has&FlagCloud != 0 {
		flags.StringVar(&g.CloudConfig, "cloud-config", "",
			"file with the CloudStack credentials, instead of the Secret")
	}

	if has&FlagJournal != 0 {
		flags.StringVar(&g.Journal, "journal", "",
			"file for the record of what is done (default in the user's state folder)")
	}

	if has&FlagUnlock != 0 {
		flags.BoolVar(&g.ForceUnlock, "force-unlock", false,
			"continue even if a revision of the release is pending; use only if that Helm operation has crashed")
	}

	if has&FlagRollout != 0 {
		flags.DurationVar(&g.RolloutTimeout, "rollout-timeout", rollout.DefaultTimeout,
			"how long the controller's Pods may take to start")
	}

	if has&FlagFailOn != 0 {
		flags.StringVar(&g.FailOn, "fail-on", string(check.SeverityError),
			"what makes the command fail: error or warning")
		CompleteFlag(cmd, "fail-on", OneOf("error", "warning"))
	}

	if has&FlagDryRun != 0 {
		flags.BoolVar(&g.DryRun, "dry-run", false, DryRunUsage)
	}

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := g.within(cmd.Context(), func(ctx context.Context) error {
			if err := g.judge(cmd, has); err != nil {
				return err
			}
			return body(ctx, args)
		})

		// Prefer the remedy of a step that had begun: it is more precise.
		if err != nil &&
			has&FlagDryRun != 0 &&
			errors.Is(context.Cause(cmd.Context()), ErrInterrupted) &&
			report.RemedyOf(err) == "" {
			return report.Remedied(Classify(cmd.Context(), err),
				"run the same command again: it does not repeat finished steps")
		}
		return err
	}

	return cmd
}

// judge validates the shared flags. It needs no connection.
func (g *Globals) judge(cmd *cobra.Command, has FlagSet) error {
	g.command = cmd
	g.running = strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" "), " ", "-")
	formats := strings.Fields(cmd.Annotations[OutputsAnnotation])
	if g.Format = g.Output; g.Format == "" {
		g.Format = formats[0]
	}

	if !slices.Contains(formats, g.Format) {
		return Usagef("-o %q is none of %s", g.Output, strings.Join(formats, ", "))
	}

	if has&FlagRollout != 0 {
		if err := Positive("--rollout-timeout", g.RolloutTimeout); err != nil {
			return err
		}
	}

	if has&FlagFailOn != 0 && g.FailOn != string(check.SeverityError) && g.FailOn != string(check.SeverityWarning) {
		return Usagef("--fail-on %q is not error or warning", g.FailOn)
	}

	return nil
}

// DefaultTimeout makes limit the default of --timeout for a command, if where returns true or is nil; 0 means no limit.
func (g *Globals) DefaultTimeout(cmd *cobra.Command, limit time.Duration, where func() bool) {
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if !cmd.Flags().Changed("timeout") && (where == nil || where()) {
			g.Timeout = limit
		}
	}
}

// Positive returns an error if the duration in a flag is not more than 0.
func Positive(flag string, d time.Duration) error {
	if d <= 0 {
		return Usagef("%s %s must be more than 0", flag, d)
	}
	return nil
}

// Show writes a result in the format of -o: v as JSON or YAML, or what text writes.
func (g *Globals) Show(v any, text func(w io.Writer) error) error {
	if g.Format == "text" {
		return text(g.Out)
	}
	return report.Encode(g.Out, g.Format, v)
}

// Env returns the environment of a command that changes something, not connected yet.
func (g *Globals) Env() *engine.Env {
	journal := g.Journal
	if journal == "" {
		journal = filepath.Join(g.StateDir(), g.running+"-"+time.Now().UTC().Format("20060102T150405.000Z")+".jsonl")
	}

	return &engine.Env{
		Prompt:         g.Prompter(),
		Progress:       report.NoProgress(),
		Out:            g.Out,
		Clock:          clock.RealClock{},
		Interactive:    g.Interactive(),
		Style:          g.Style(g.Out),
		Release:        g.Release,
		Yes:            g.Yes,
		ForceUnlock:    g.ForceUnlock,
		DryRun:         g.DryRun,
		Verbose:        g.Verbosity > 0,
		Output:         g.Format,
		Journal:        journal,
		RolloutTimeout: g.RolloutTimeout,
	}
}

// OnRelease connects to the cluster of the release and to Helm, and runs body.
func (g *Globals) OnRelease(ctx context.Context, body func(*engine.Env) error) error {
	c, err := g.ClusterOfRelease(ctx)
	if err != nil {
		return err
	}

	return g.On(c, func(e *engine.Env) error {
		objects, err := dynamic.NewForConfig(c.REST)
		if err != nil {
			return err
		}

		client := helm.New(g.Kube, c.Namespace, g.Debugf())
		client.ForceUnlock, e.Helm, e.PodLogs = g.ForceUnlock, client, c.PodLog
		e.Diff = (&diff.Client{Dynamic: objects, Release: g.Release, Namespace: c.Namespace}).Manifests
		return body(e)
	})
}

// OnCloud connects to the cluster and to CloudStack, and runs body.
func (g *Globals) OnCloud(ctx context.Context, body func(*engine.Env, *access.Cloud) error) error {
	c, cs, err := g.Connect(ctx)
	if err != nil {
		return err
	}
	defer cs.Close()
	return g.On(c, func(e *engine.Env) error { return body(e, cs) })
}

// On runs body on a cluster.
func (g *Globals) On(c *cluster.Cluster, body func(*engine.Env) error) error {
	e := g.Env()
	e.Cluster, e.Progress, e.Clock = c, g.Progress(), c.Clock(e.Clock)
	defer e.Progress.Close()

	err := body(e)
	if err != nil {
		e.Progress.Fail("") // end the open step
	}
	return c.Explain(err)
}

// Connect connects to the cluster, and to CloudStack with the credentials of --cloud-config or of the controller's
// Secret. It checks a file first, which needs no network. Without credentials it returns the cluster and
// access.ErrNoCredentials.
func (g *Globals) Connect(ctx context.Context) (*cluster.Cluster, *access.Cloud, error) {
	var cs *access.Cloud
	var err error
	if g.CloudConfig != "" {
		if cs, err = access.Of(ctx, nil, g.Release, g.CloudConfig); err != nil {
			return nil, nil, err
		}
	}
	c, err := g.Cluster(ctx)
	if err == nil && cs == nil {
		cs, err = access.OfSecret(ctx, c, g.Release)
		if errors.Is(err, access.ErrNoCredentials) {
			if wrong := ReleaseHere(ctx, c, cluster.DefaultRelease); wrong != nil {
				return nil, nil, wrong
			}
		}
	}
	return c, cs, err
}

// Cluster connects to the cluster that the flags name, and makes sure that it answers.
func (g *Globals) Cluster(ctx context.Context) (*cluster.Cluster, error) {
	c, err := cluster.New(g.Kube)
	if err != nil {
		return nil, err
	}
	info, err := c.Ping(ctx)
	if err != nil {
		return nil, err
	}
	c.Version = info.GitVersion
	return c, nil
}

// ClusterOfRelease is like Cluster, but returns an error if the release is in another namespace of the cluster.
func (g *Globals) ClusterOfRelease(ctx context.Context) (*cluster.Cluster, error) {
	c, err := g.Cluster(ctx)
	if err == nil {
		err = ReleaseHere(ctx, c, g.Release)
	}
	return c, err
}

// ReleaseHere returns an error if the release is in another namespace than -n names. With a mistyped -n, the command
// would change Services and nodes of the controller in that other namespace.
func ReleaseHere(ctx context.Context, c *cluster.Cluster, release string) error {
	namespace := c.ReleaseElsewhere(ctx, release)
	if namespace == "" {
		return nil
	}
	return report.Remedied(Usagef("release %s is in %s, not in namespace %s: nothing was changed", release, namespace,
		c.Namespace), "use -n "+namespace)
}

// waitedTooLong reports whether client-go's rate limiter rejected the request because of its deadline. That error has
// no type of its own.
func waitedTooLong(err error) bool {
	return err != nil && strings.Contains(err.Error(), "would exceed context deadline")
}

// within runs body for at most --timeout. If body runs out of time, the error names --timeout instead of a bare
// "context deadline exceeded".
func (g *Globals) within(ctx context.Context, body func(context.Context) error) error {
	if g.Timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.Timeout,
			fmt.Errorf("%w after %s (--timeout)", ErrTimeout, g.Timeout))
		defer cancel()
	}

	err := body(ctx)

	// The deadline of a connection may pass a moment before the context's own, and client-go does not start a call that
	// would end after the deadline.
	if deadline, bounded := ctx.Deadline(); bounded &&
		(waitedTooLong(err) || errors.Is(err, context.DeadlineExceeded)) &&
		time.Until(deadline) < time.Second {
		return fmt.Errorf("%w after %s (--timeout): %w", ErrTimeout, g.Timeout, err)
	}

	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); cause != nil && ExitCode(err) == report.ExitFailure {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}

	return err
}
