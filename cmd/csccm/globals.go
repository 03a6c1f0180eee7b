// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

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
	shared

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
	return &globals{streams: s, clock: clock.RealClock{}, kube: cluster.NewFlags(), color: report.ColorAuto}
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

func isTerminal(v any) bool {
	f, ok := v.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// stateDir is where csccm keeps records of what it changed.
func (g *globals) stateDir() string {
	if dir := g.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "csccm")
	}
	if home := g.getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "csccm")
	}
	return filepath.Join(os.TempDir(), "csccm")
}
