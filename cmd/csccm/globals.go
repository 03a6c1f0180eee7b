// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// streams are the command's ends. Results go to out, prompts, progress and
// errors to errOut.
type streams struct {
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	getenv func(string) string
}

func stdio() streams {
	return streams{in: os.Stdin, out: os.Stdout, errOut: os.Stderr, getenv: os.Getenv}
}

// globals are the flags that every command has, and the command's streams.
type globals struct {
	streams

	// kube is the one source of the cluster connection, for client-go and Helm
	// alike, so that --context or --as mean the same for both.
	kube *genericclioptions.ConfigFlags

	clock clock.Clock

	output         string
	color          report.ColorMode
	yes            bool
	nonInteractive bool
	accessible     bool
	timeout        time.Duration
	verbosity      int
}

func newGlobals(s streams) *globals {
	g := &globals{streams: s, clock: clock.RealClock{}}
	g.kube = cluster.NewFlags()
	g.color = report.ColorAuto
	return g
}

func (g *globals) addFlags(flags *pflag.FlagSet) {
	kube := pflag.NewFlagSet("kube", pflag.ContinueOnError)
	g.kube.AddFlags(kube)
	kube.VisitAll(func(f *pflag.Flag) {
		// The less common half stays usable but out of the help.
		if !slices.Contains([]string{"kubeconfig", "context", "namespace", "as"}, f.Name) {
			f.Hidden = true
		}
		if f.Name == "namespace" {
			f.Usage = "namespace of the controller and its Secret"
		}
	})
	flags.AddFlagSet(kube)
	flags.StringVarP(&g.output, "output", "o", "", "output format, see the command (for example text, json)")
	flags.Var(&g.color, "color", "colours; auto heeds NO_COLOR, CLICOLOR_FORCE and TERM=dumb")
	flags.BoolVarP(&g.yes, "yes", "y", false, "answer every confirmation with yes")
	flags.BoolVar(&g.nonInteractive, "non-interactive", false, "never ask; implied when stdin or stderr is no terminal, or CI is set")
	flags.BoolVar(&g.accessible, "accessible", false, "ask in plain lines, for screen readers and scripts")
	flags.DurationVar(&g.timeout, "timeout", 10*time.Minute, "give up after this time; 0 means never")
	flags.CountVarP(&g.verbosity, "verbose", "v", "say more; twice for details")
}

func (g *globals) validate() error {
	if g.timeout < 0 {
		return usagef("--timeout %s is negative", g.timeout)
	}
	return nil
}

// wantOutput checks -o against the formats of a command; "" is the first.
func (g *globals) wantOutput(formats ...string) (string, error) {
	if g.output == "" {
		return formats[0], nil
	}
	if !slices.Contains(formats, g.output) {
		return "", usagef("-o %q is none of %s", g.output, strings.Join(formats, ", "))
	}
	return g.output, nil
}

// interactive reports whether the command may ask. Both ends must be a terminal:
// answers come from stdin, questions go to stderr.
func (g *globals) interactive() bool {
	return !g.nonInteractive && g.getenv("CI") == "" && isTerminal(g.in) && isTerminal(g.errOut)
}

// style is how to draw on w, g.out or g.errOut.
func (g *globals) style(w io.Writer) report.Style { return report.Detect(w, g.color, g.getenv) }

// progress shows steps on stderr; the caller closes it.
func (g *globals) progress() report.Progress {
	return report.NewProgress(g.errOut, g.style(g.errOut), nil)
}

// prompter asks on the terminal, or refuses by naming the flag where there is none.
func (g *globals) prompter() prompt.Prompter {
	if !g.interactive() {
		return prompt.NewRefusing()
	}
	in, inOK := g.in.(*os.File)
	out, outOK := g.errOut.(*os.File)
	if g.accessible || g.getenv("TERM") == "dumb" || !inOK || !outOK {
		return prompt.NewLines(g.in, g.errOut)
	}
	return prompt.NewSurvey(in, out, g.style(out).Color)
}

// debugf writes details to stderr with -vv, and drops them otherwise.
func (g *globals) debugf() func(format string, v ...any) {
	if g.verbosity < 2 {
		return func(string, ...any) {}
	}
	return func(format string, v ...any) { _, _ = fmt.Fprintf(g.errOut, "debug: "+format+"\n", v...) }
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

// releaseHere refuses a namespace in which the release is not although another one has it: -n may be mistyped, and what
// is done about the Services and nodes would be done to those of the controller that runs.
func releaseHere(ctx context.Context, c *cluster.Cluster, release string) error {
	namespace := c.ReleaseElsewhere(ctx, release)
	if namespace == "" {
		return nil
	}
	return report.Remedied(usagef("release %s is in %s, not in namespace %s: nothing was changed", release, namespace, c.Namespace), "use -n "+namespace)
}

func isTerminal(v any) bool {
	f, ok := v.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// withTimeout bounds ctx by --timeout.
func (g *globals) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if g.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, g.timeout, fmt.Errorf("%w after %s (--timeout)", errTimeout, g.timeout))
}

// waitedTooLong reports whether client-go gave a call up before its deadline, because its turn would come after that. The
// limiter has no type for it.
func waitedTooLong(err error) bool {
	return err != nil && strings.Contains(err.Error(), "would exceed context deadline")
}

// runE adapts a command's body: --timeout, and its cause instead of a bare
// "context deadline exceeded".
func (g *globals) runE(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, cancel := g.withTimeout(cmd.Context())
		defer cancel()
		err := body(ctx, args)
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
}
