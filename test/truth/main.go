// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command truth runs scenarios with csccm on real nodes: kubelets with containerd in
// network namespaces, Pods that answer requests, and a simulated CloudStack whose data
// path forwards packets by its rules. It prints a table and writes docs/truth.md. It
// needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/realnode"
)

func main() {
	realnode.Stage()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings holds the values of the flags.
type settings struct {
	minors []plane.Minor
	only   *regexp.Regexp
	out    string
	list   bool
	rate   int
	check  bool
	again  bool
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("truth", flag.ContinueOnError)
	f.SetOutput(stderr)
	minor := f.String("minor", string(plane.Newest), "minor of Kubernetes, or all")
	only := f.String("only", "", "run the scenarios whose name matches this regular expression")
	f.StringVar(&s.out, "out", "", "write the results to this Markdown file; not written with --only")
	f.IntVar(&s.rate, "rate", 200, "requests per second of steady traffic; a busy machine may need a lower rate")
	f.BoolVar(&s.check, "check", false, "check whether real nodes can run on this machine, print the reason in one line when they cannot, and exit")
	f.BoolVar(&s.again, "again", false, "run failed scenarios a second time; those that succeed then do not count as failed")
	f.BoolVar(&s.list, "list", false, "print the names of the scenarios and exit")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments %q: only flags are supported", f.Args())
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	if !slices.ContainsFunc(names(), s.only.MatchString) {
		return nil, fmt.Errorf("--only: no scenario matches %q; --list prints the names", *only)
	}
	if *minor == "all" {
		s.minors = plane.Minors()
		return s, nil
	}
	m, err := plane.ParseMinor(*minor)
	s.minors = []plane.Minor{m}
	return s, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "truth:", err)
		return 2
	}
	if s.list {
		_, _ = fmt.Fprintln(stdout, strings.Join(names(), "\n"))
		return 0
	}
	_, in := realnode.Inside()
	if in && s.check {
		if err := realnode.Try(ctx); err != nil {
			_, _ = fmt.Fprintln(stderr, "real nodes cannot run here:", oneLine(err.Error()))
			return 1
		}
		return 0
	}
	if in {
		return inside(ctx, s, stdout, stderr)
	}
	code, err := outside(ctx, s, stderr)
	if err != nil && s.check {
		_, _ = fmt.Fprintln(stderr, "real nodes cannot run here:", oneLine(err.Error()))
	} else if err != nil {
		_, _ = fmt.Fprintln(stderr, "truth:", err)
	}
	return code
}

// names returns the names of all scenarios.
func names() []string {
	var all []string
	for _, c := range chapters() {
		for _, s := range c.scenarios {
			all = append(all, s.name)
		}
	}
	return all
}

// oneLine joins the lines of an error, which may hold the output of a program.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// outside builds all programs, which may need a network, and runs the sandbox.
func outside(ctx context.Context, s *settings, stderr io.Writer) (int, error) {
	if err := realnode.Check(ctx, os.Getenv("E2E_INSTALL") == "1"); err != nil {
		return 1, err
	}
	if s.check {
		return realnode.Enter(ctx, stderr)
	}
	if err := prepare(ctx, s.minors, stderr); err != nil {
		return 1, err
	}
	before := realnode.ReadMachine(ctx)
	code, err := realnode.Enter(ctx, stderr)
	left := leftBehind(realnode.ReadMachine(context.WithoutCancel(ctx)).Added(before))
	_, _ = fmt.Fprintf(stderr, "\n%s\n", left)
	if err == nil && s.writes() && ctx.Err() == nil {
		err = appendTo(s.out, "\n## Afterwards\n\n"+left+"\n")
	}
	return code, err
}

// leftBehind returns a sentence about what a run has left on the machine.
func leftBehind(since []string) string {
	if len(since) == 0 {
		return "Nothing is left on the machine: mounts, links, nftables, network namespaces, cgroups and folders are those of before,\nand no process of the run lives."
	}
	return "New on the machine, of the run or of somebody else: " + strings.Join(since, ", ") + "."
}

// writes reports whether the page is written. With --only it is not, because it would lack scenarios.
func (s *settings) writes() bool { return s.out != "" && s.only.String() == "" }

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0) // #nosec G304 -- the user's own file
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// inside runs the scenarios on each minor and prints the table.
func inside(ctx context.Context, s *settings, stdout, stderr io.Writer) int {
	p, err := prepared()
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "truth:", err)
		return 1
	}
	p.Rate = s.rate
	all := each(s.minors, func(minor plane.Minor, c chapter) []result {
		return c.run(ctx, p, minor, s.only, stderr)
	})
	if s.again && ctx.Err() == nil {
		first := all
		all = append(all, each(s.minors, func(minor plane.Minor, c chapter) []result {
			left := c.unproven(minor, s.only, first)
			if len(left) == 0 {
				return nil
			}
			_, _ = fmt.Fprintf(stderr, "\nRunning again what failed on Kubernetes %s: %s\n", minor.Release(), strings.Join(left, "; "))
			c.name += ", once more"
			return c.run(ctx, p, minor, named(left), stderr)
		})...)
	}
	_, _ = fmt.Fprint(stdout, table(all))
	if s.writes() && ctx.Err() == nil {
		if err := os.WriteFile(s.out, []byte(page(all)), 0o644); err != nil { // #nosec G306 -- documentation
			_, _ = fmt.Fprintln(stderr, "truth:", err)
			return 1
		}
	}
	if ctx.Err() != nil {
		return 130
	}
	if left := each(s.minors, func(minor plane.Minor, c chapter) []string { return c.unproven(minor, s.only, all) }); len(left) > 0 {
		return 1
	}
	return 0
}

// each calls a function for every chapter on every minor and returns all results.
func each[T any](minors []plane.Minor, of func(plane.Minor, chapter) []T) []T {
	var all []T
	for _, minor := range minors {
		for _, c := range chapters() {
			all = append(all, of(minor, c)...)
		}
	}
	return all
}
