// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

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
	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rollout"
)

// flagSet says which of the flags that several commands have a command has.
type flagSet int

const (
	flagRelease flagSet = 1 << iota
	flagCloud           // --cloud-config: other credentials than the controller's
	flagJournal
	flagDryRun
	flagRollout
	flagFailOn
)

// changing are the flags of commands that change something, changingCloud those of commands that change something by the
// controller's credentials.
const (
	changing      = flagRelease | flagJournal | flagDryRun
	changingCloud = changing | flagCloud
)

// shared are the values of these flags. Only one command runs in a process.
type shared struct {
	release, cloudConfig, journal, failOn, dryRun string
	rolloutTimeout                                time.Duration

	running     string // name of the command, such as cks-create
	format      string // of -o
	dry, server bool   // what --dry-run says
}

// dryRunUsage is the text of the flag, and serverIsClient what the help of a command adds whose changes no API server
// can judge in advance.
const (
	dryRunUsage    = "client: read, check and show the plan, change nothing; server: let the API server judge the objects too"
	serverIsClient = `

--dry-run=server does the same as --dry-run=client here: the API server has no
objects of a chart to judge.`
)

// errDryYes refuses a command line with both flags: --yes asks for changes, --dry-run for none.
var errDryYes = usagef("--yes and --dry-run exclude each other")

const outputsAnnotation = "csccm.io/outputs"

// outputs names a command's formats of -o, where they are others than text, json and yaml.
func outputs(formats ...string) map[string]string {
	return map[string]string{outputsAnnotation: strings.Join(formats, " ")}
}

// command gives a command flags and its body, which runs when the flags have been judged, within --timeout. A command
// that says nothing else takes no arguments.
func (g *globals) command(cmd *cobra.Command, has flagSet, body func(ctx context.Context, args []string) error) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = noArgs
	}
	if cmd.Annotations == nil {
		cmd.Annotations = outputs("text", "json", "yaml")
	}
	flags := cmd.Flags()
	if has&flagRelease != 0 {
		flags.StringVar(&g.release, "release", engine.DefaultRelease, "name of the Helm release")
	}
	if has&flagCloud != 0 {
		flags.StringVar(&g.cloudConfig, "cloud-config", "", "file with the CloudStack credentials, instead of the Secret")
	}
	if has&flagJournal != 0 {
		flags.StringVar(&g.journal, "journal", "", "file for the record of what is done (default in the user's state folder)")
	}
	if has&flagRollout != 0 {
		flags.DurationVar(&g.rolloutTimeout, "rollout-timeout", rollout.DefaultTimeout, "how long the controller's Pods may take to start")
	}
	if has&flagFailOn != 0 {
		flags.StringVar(&g.failOn, "fail-on", string(check.SeverityError), "what makes the command fail: error or warning")
		completeFlag(cmd, "fail-on", oneOf("error", "warning"))
	}
	if has&flagDryRun != 0 {
		flags.StringVar(&g.dryRun, "dry-run", "", dryRunUsage)
		flags.Lookup("dry-run").NoOptDefVal = "client"
		flags.BoolFunc("plan", "the same as --dry-run=client", func(value string) error {
			if value == "true" && g.dryRun == "" {
				g.dryRun = "client"
			}
			return nil
		})
		completeFlag(cmd, "dry-run", oneOf("client", "server"))
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return g.within(cmd.Context(), func(ctx context.Context) error {
			if err := g.judge(cmd, has); err != nil {
				return err
			}
			return body(ctx, args)
		})
	}
	return cmd
}

// judge judges the shared flags, which needs no connection.
func (g *globals) judge(cmd *cobra.Command, has flagSet) error {
	g.running = strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" "), " ", "-")
	formats := strings.Fields(cmd.Annotations[outputsAnnotation])
	if g.format = g.output; g.format == "" {
		g.format = formats[0]
	}
	if !slices.Contains(formats, g.format) {
		return usagef("-o %q is none of %s", g.output, strings.Join(formats, ", "))
	}
	if has&flagRollout != 0 {
		if err := positive("--rollout-timeout", g.rolloutTimeout); err != nil {
			return err
		}
	}
	if has&flagFailOn != 0 && g.failOn != string(check.SeverityError) && g.failOn != string(check.SeverityWarning) {
		return usagef("--fail-on %q is none of error, warning", g.failOn)
	}
	if !slices.Contains([]string{"", "client", "server"}, g.dryRun) {
		return usagef("--dry-run=%s is not known; there are --dry-run=client and --dry-run=server, and --dry-run alone means client", g.dryRun)
	}
	if g.dry, g.server = g.dryRun != "", g.dryRun == "server"; g.dry && g.yes && has&flagCloud != 0 {
		return errDryYes
	}
	return nil
}

// longer gives a command that a person answers another default of --timeout.
func (g *globals) longer(cmd *cobra.Command, limit time.Duration) {
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if g.interactive() && !cmd.Flags().Changed("timeout") {
			g.timeout = limit
		}
	}
}

// patient gives a command that follows CloudStack's work another default of --timeout.
func (g *globals) patient(cmd *cobra.Command, limit time.Duration) {
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if !cmd.Flags().Changed("timeout") {
			g.timeout = limit
		}
	}
}

// positive refuses a time that leaves nothing to wait for.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return usagef("%s %s must be more than 0", flag, d)
	}
	return nil
}

// show writes a result as -o says: v, or its text.
func (g *globals) show(v any, text func(w io.Writer) error) error {
	if g.format == "text" {
		return text(g.out)
	}
	return report.Encode(g.out, g.format, v)
}

// env is what a command that changes something runs with, before it is connected.
func (g *globals) env() *engine.Env {
	journal := g.journal
	if journal == "" {
		journal = filepath.Join(g.stateDir(), g.running+"-"+time.Now().UTC().Format("20060102T150405.000Z")+".jsonl")
	}
	return &engine.Env{
		Prompt: g.prompter(), Progress: report.Quiet(), Out: g.out, ErrOut: g.errOut, Clock: clock.RealClock{}, Interactive: g.interactive(), Style: g.style,
		Release: g.release, Yes: g.yes, DryRun: g.dry, Output: g.format, Journal: journal, RolloutTimeout: g.rolloutTimeout,
	}
}

// onRelease connects to the cluster of the release and to Helm, and runs body.
func (g *globals) onRelease(ctx context.Context, body func(*engine.Env) error) error {
	e := g.env()
	var err error
	if e.Cluster, err = g.clusterOfRelease(ctx); err != nil {
		return err
	}
	if e.Helm, err = helm.New(g.kube, e.Cluster.Namespace, g.debugf()); err != nil {
		return err
	}
	e.Progress, e.PodLogs = g.progress(), e.Cluster.PodLog
	defer e.Progress.Close()
	if !g.dry || g.server {
		e.Diff = func(ctx context.Context, namespace, old, manifest string) ([]diff.Change, error) {
			mapper, err := g.kube.ToRESTMapper()
			if err != nil {
				return nil, err
			}
			objects, err := dynamic.NewForConfig(e.Cluster.REST)
			if err != nil {
				return nil, err
			}
			return (&diff.Client{Dynamic: objects, Mapper: mapper, Namespace: namespace}).Manifests(ctx, old, manifest)
		}
	}
	return body(e)
}

// onCloud connects to the cluster and to CloudStack, and runs body.
func (g *globals) onCloud(ctx context.Context, body func(*engine.Env, *cloud.Cloud) error) error {
	c, cs, err := g.connect(ctx)
	if err != nil {
		return err
	}
	defer cs.Close()
	return g.on(c, func(e *engine.Env) error { return body(e, cs) })
}

// on runs body on a cluster.
func (g *globals) on(c *cluster.Cluster, body func(*engine.Env) error) error {
	e := g.env()
	e.Cluster, e.Progress = c, g.progress()
	defer e.Progress.Close()
	return body(e)
}

// connect reaches the cluster, and CloudStack with the credentials of --cloud-config or of the controller's Secret. A file
// is judged first: that needs no network. Without credentials the cluster comes along with cloud.ErrNoCredentials.
func (g *globals) connect(ctx context.Context) (*cluster.Cluster, *cloud.Cloud, error) {
	var cs *cloud.Cloud
	var err error
	if g.cloudConfig != "" {
		if cs, err = cloud.OfFile(g.cloudConfig); err != nil {
			return nil, nil, err
		}
	}
	c, err := g.cluster(ctx)
	if err == nil && cs == nil {
		cs, err = cloud.OfSecret(ctx, c)
		if errors.Is(err, cloud.ErrNoCredentials) {
			if wrong := releaseHere(ctx, c, engine.DefaultRelease); wrong != nil {
				return nil, nil, wrong
			}
		}
	}
	return c, cs, err
}

// cluster connects to the cluster that the flags name, and makes sure that it answers.
func (g *globals) cluster(ctx context.Context) (*cluster.Cluster, error) {
	c, err := cluster.New(g.kube)
	if err != nil {
		return nil, err
	}
	if _, err := c.Ping(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// clusterOfRelease is cluster, unless the release is in another namespace of it.
func (g *globals) clusterOfRelease(ctx context.Context) (*cluster.Cluster, error) {
	c, err := g.cluster(ctx)
	if err == nil {
		err = releaseHere(ctx, c, g.release)
	}
	return c, err
}

// releaseHere returns an error if the release is in another namespace than -n names. -n may be mistyped, and the command
// would then change Services and nodes of the controller that runs in the other namespace.
func releaseHere(ctx context.Context, c *cluster.Cluster, release string) error {
	namespace := c.ReleaseElsewhere(ctx, release)
	if namespace == "" {
		return nil
	}
	return report.Remedied(usagef("release %s is in %s, not in namespace %s: nothing was changed", release, namespace, c.Namespace), "use -n "+namespace)
}

// waitedTooLong reports whether client-go gave a call up before its deadline, because its turn would come after that. The
// limiter has no type for it.
func waitedTooLong(err error) bool {
	return err != nil && strings.Contains(err.Error(), "would exceed context deadline")
}

// within bounds body by --timeout, and returns its cause instead of a bare "context deadline exceeded".
func (g *globals) within(ctx context.Context, body func(context.Context) error) error {
	if g.timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.timeout, fmt.Errorf("%w after %s (--timeout)", errTimeout, g.timeout))
		defer cancel()
	}
	err := body(ctx)
	if deadline, bounded := ctx.Deadline(); bounded && waitedTooLong(err) && time.Until(deadline) < time.Second {
		return fmt.Errorf("%w after %s (--timeout): %w", errTimeout, g.timeout, err)
	}
	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); cause != nil && exitCode(err) == report.ExitFailure {
			return fmt.Errorf("%w: %w", cause, err)
		}
	}
	return err
}
