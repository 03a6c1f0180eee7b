// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli contains what the commands of csccm share: global flags, streams, connections, time limits, completion,
// errors and exit codes.
package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Streams are the input and the outputs of a command. Results go to Out; prompts, progress and errors go to ErrOut.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	ErrOut io.Writer
	Getenv func(string) string
}

// Stdio returns the streams of the process.
func Stdio() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Getenv: os.Getenv}
}

// Globals are the flags that every command has, and the command's streams.
type Globals struct {
	Streams
	shared

	// Kube configures the cluster connection of both client-go and Helm, so that flags such as --context and --as apply
	// to both.
	Kube *genericclioptions.ConfigFlags
	// Connection returns the flags that reach the same cluster; the kubeconfig is read once.
	Connection func() []string

	Clock clock.Clock
	// Unknown is the error of --help for a command that does not exist.
	Unknown error

	Output         string
	Color          string
	Yes            bool
	NonInteractive bool
	Accessible     bool
	Timeout        time.Duration
	Verbosity      int
	Quiet          bool // no progress; only warnings and failed steps
}

// New returns the flags with their defaults. What is written to the streams is escaped, see package terminal.
func New(s Streams) *Globals {
	s.Out, s.ErrOut = terminal.Writer(s.Out), terminal.Writer(s.ErrOut)
	g := &Globals{Streams: s, Clock: clock.RealClock{}, Kube: cluster.NewFlags(), Color: report.ColorAuto}
	g.Connection = sync.OnceValue(func() []string {
		c, err := cluster.New(g.Kube)
		if err != nil {
			return nil
		}
		return c.Connection()
	})
	return g
}

// Inside returns the Globals of a command that another command runs in the cluster of config. It asks no questions and
// writes its results to stderr.
func (g *Globals) Inside(config *rest.Config, command string) *Globals {
	in := New(Streams{In: strings.NewReader(""), Out: g.ErrOut, ErrOut: g.ErrOut, Getenv: g.Getenv})
	in.Color, in.Verbosity, in.Quiet, in.Yes = g.Color, g.Verbosity, g.Quiet, true
	in.running, in.Format, in.FailOn = command, "text", string(check.SeverityError)
	in.Release, in.RolloutTimeout = cluster.DefaultRelease, rollout.DefaultTimeout
	none, wrap := os.DevNull, in.Kube.WrapConfigFn
	in.Kube.KubeConfig, in.Kube.APIServer = &none, &config.Host
	in.Kube.WrapConfigFn = func(*rest.Config) *rest.Config { return wrap(rest.CopyConfig(config)) }
	return in
}

// AddFlags declares the flags that every command has.
func (g *Globals) AddFlags(flags *pflag.FlagSet) {
	kube := pflag.NewFlagSet("kube", pflag.ContinueOnError)
	g.Kube.AddFlags(kube)
	kube.VisitAll(func(f *pflag.Flag) {
		// The less common flags are accepted but hidden in the help.
		if !slices.Contains([]string{"kubeconfig", "context", "namespace", "as"}, f.Name) {
			f.Hidden = true
		}
		if f.Name == "namespace" {
			f.Usage = "namespace of the controller and its Secret"
		}
	})

	flags.AddFlagSet(kube)
	flags.StringVarP(&g.Output, "output", "o", "", "output format, see the command (for example text, json)")
	flags.StringVar(&g.Color, "color", report.ColorAuto,
		"colours: always, never or auto, which heeds NO_COLOR, CLICOLOR_FORCE and TERM=dumb")
	flags.BoolVarP(&g.Yes, "yes", "y", false, "answer every confirmation with yes")
	flags.BoolVar(&g.NonInteractive, "non-interactive", false,
		"never ask; implied when stdin or stderr is not a terminal, or CI is set")
	flags.BoolVar(&g.Accessible, "accessible", false, "ask in plain lines, for screen readers and scripts")
	flags.DurationVar(&g.Timeout, "timeout", 10*time.Minute, "give up after this time; 0 means never")
	flags.BoolVarP(&g.Quiet, "quiet", "q", false, "no progress, only warnings and errors")
	flags.CountVarP(&g.Verbosity, "verbose", "v", "show more; twice for details")
}

// Validate validates the flags that every command has.
func (g *Globals) Validate() error {
	if g.Timeout < 0 {
		return Usagef("--timeout %s is negative", g.Timeout)
	}
	if g.Quiet && g.Verbosity > 0 {
		return Usagef("--quiet and --verbose exclude each other")
	}
	if !slices.Contains(report.Colors, g.Color) {
		return Usagef("--color %q is none of %s", g.Color, strings.Join(report.Colors, ", "))
	}
	return nil
}

// Interactive reports whether the command may ask questions. stdin and stderr must both be terminals: answers come from
// stdin, questions go to stderr.
func (g *Globals) Interactive() bool {
	_, in := report.Terminal(g.In)
	_, out := report.Terminal(g.ErrOut)
	return in && out && !g.NonInteractive && g.Getenv("CI") == ""
}

// Style returns the style of output on w, which is g.Out or g.ErrOut.
func (g *Globals) Style(w io.Writer) report.Style {
	s := report.Detect(w, g.Color, g.Getenv)
	s.Carry = g.commands
	return s
}

// Progress returns a display of steps on stderr; the caller closes it.
func (g *Globals) Progress() *report.Progress {
	p := report.NewProgress(g.ErrOut, g.Style(g.ErrOut), nil)
	p.Quiet = g.Quiet
	return p
}

// Prompter returns a Prompter that asks on the terminal. Without a terminal, it refuses and names the flag to use
// instead.
func (g *Globals) Prompter() prompt.Prompter {
	if !g.Interactive() {
		return prompt.NewRefusing()
	}
	in, inOK := g.In.(*os.File)
	out, outOK := terminal.Raw(g.ErrOut).(*os.File) // prompts write control sequences
	if g.Accessible || g.Getenv("TERM") == "dumb" || !inOK || !outOK {
		return prompt.NewLines(g.In, g.ErrOut)
	}
	return prompt.NewSurvey(in, out, g.Style(out).Color)
}

// Debugf returns a function that writes details to stderr with -vv, and drops them otherwise.
func (g *Globals) Debugf() func(format string, v ...any) {
	if g.Verbosity < 2 {
		return func(string, ...any) {}
	}
	return func(format string, v ...any) { _, _ = fmt.Fprintf(g.ErrOut, "debug: "+format+"\n", v...) }
}

// StateDir returns the directory in which csccm keeps records of what it changed.
func (g *Globals) StateDir() string {
	if dir := g.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "csccm")
	}
	if home := g.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "csccm")
	}
	return filepath.Join(os.TempDir(), "csccm")
}
