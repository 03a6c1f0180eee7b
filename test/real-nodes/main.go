// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command real-nodes runs scenarios with csccm on real nodes: kubelets with containerd in
// network namespaces, Pods that answer requests, and a simulated CloudStack whose data
// path forwards packets by its rules. It prints a table and writes docs/real-nodes.md. It
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
	"time"

	"github.com/csccm/csccm/test/internal/must"
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
	lanes  int
	check  bool
	again  bool
	// leftOut are the names of scenarios that cannot run here.
	leftOut []string
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("real-nodes", flag.ContinueOnError)
	f.SetOutput(stderr)
	minor := f.String("minor", string(plane.Newest), "minor of Kubernetes, or all")
	only := f.String("only", "", "run the scenarios whose name matches this regular expression")
	f.StringVar(&s.out, "out", "", "write the results to this Markdown file; not written with --only")
	f.IntVar(&s.rate, "rate", 200, "requests per second of steady traffic; a busy machine may need a lower rate")
	f.IntVar(&s.lanes, "lanes", 2, "chapters that run at the same time, each with its own cluster; a machine with little memory may need 1")
	f.BoolVar(&s.check, "check", false, "check whether real nodes can run on this machine, print the reason in one line when they cannot, and exit")
	f.BoolVar(&s.again, "again", false, "run failed scenarios a second time; those that succeed then do not count as failed")
	f.BoolVar(&s.list, "list", false, "print the names of the scenarios and exit")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments %q: only flags are supported", f.Args())
	}
	if s.lanes < 1 {
		return nil, fmt.Errorf("--lanes %d: at least 1 chapter must run", s.lanes)
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
		_, _ = fmt.Fprintln(stderr, "real-nodes:", err)
		return 2
	}
	if s.list {
		_, _ = fmt.Fprintln(stdout, strings.Join(names(), "\n"))
		return 0
	}
	code := 0
	if _, in := realnode.Inside(); !in {
		code, err = outside(ctx, s, stdout, stderr)
	} else if s.check {
		err = realnode.Try(ctx)
	} else {
		err = inside(ctx, s.rate, stdout, stderr)
	}
	switch {
	case err == nil:
		return code
	case s.check:
		_, _ = fmt.Fprintln(stderr, "real nodes cannot run here:", strings.Join(strings.Fields(err.Error()), " "))
	default:
		_, _ = fmt.Fprintln(stderr, "real-nodes:", err)
	}
	return 1
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

// outside builds all programs, which may need a network, runs the scenarios in sandboxes, and prints the table.
func outside(ctx context.Context, s *settings, stdout, stderr io.Writer) (_ int, err error) {
	defer must.Return(&err)
	must.OK(realnode.Check(ctx, os.Getenv("INSTALL_PACKAGES") == "1"))
	if s.check {
		return realnode.Enter(ctx, realnode.Sandbox{Stdout: stdout, Stderr: stderr})
	}
	p := must.Get(prepare(ctx, s.minors, stderr))
	if p.Gateway.Image == "" {
		s.leftOut = slices.DeleteFunc(gatewayNames(), func(name string) bool { return !s.only.MatchString(name) })
	}
	must.Be(len(s.jobs(nil)) > 0, "%s", strings.TrimSpace(notTested(s.leftOut)))
	before, start := realnode.ReadMachine(ctx), time.Now()
	all := s.everything(ctx, stderr)
	left := leftBehind(realnode.ReadMachine(context.WithoutCancel(ctx)).Added(before))
	text := page(all) + notTested(s.leftOut) + "\n## Afterwards\n\n" + left + "\n"
	_, _ = fmt.Fprintf(stdout, "%s\nAll of it took %s.\n", text, time.Since(start).Round(time.Second))
	switch {
	case ctx.Err() != nil:
		return 130, nil
	case s.out != "" && s.only.String() == "": // otherwise the page would lack scenarios
		must.OK(os.WriteFile(s.out, []byte(text), 0o644)) // #nosec G306 -- documentation
	}
	return min(len(s.jobs(all)), 1), nil
}

// notTested returns a sentence about the scenarios that are left out, empty when there are none.
func notTested(leftOut []string) string {
	if len(leftOut) == 0 {
		return ""
	}
	return fmt.Sprintf("\nNOT TESTED: %s. Traefik is not built here: run: cd test && go run ./cmd/plane-build traefik.\n", strings.Join(leftOut, "; "))
}

// leftBehind returns a sentence about what a run has left on the machine.
func leftBehind(since []string) string {
	if len(since) == 0 {
		return "Nothing is left on the machine: mounts, links, nftables, network namespaces, cgroups and folders are as before,\nand no process of the run is left."
	}
	return "New on the machine, of the run or of somebody else: " + strings.Join(since, ", ") + "."
}

// everything runs the scenarios on each minor, and with again those that failed once more, without others beside them.
func (s *settings) everything(ctx context.Context, log io.Writer) []result {
	run := func(j job) []result { return inSandbox(ctx, j, log) }
	all := runAll(s.jobs(nil), s.lanes, run)
	left := s.jobs(all)
	if !s.again || ctx.Err() != nil || len(left) == 0 {
		return all
	}
	_, _ = fmt.Fprintln(log, "\nRunning again what failed.")
	again := runAll(left, 1, run)
	for i := range again {
		again[i].Chapter += ", once more"
	}
	return append(all, again...)
}

// jobs returns a job for each chapter on each minor, with its scenarios that match --only and have not succeeded.
func (s *settings) jobs(all []result) []job {
	var jobs []job
	for _, minor := range s.minors {
		for _, c := range chapters() {
			left := slices.DeleteFunc(c.unproven(minor, s.only, all), func(name string) bool { return slices.Contains(s.leftOut, name) })
			if len(left) > 0 {
				jobs = append(jobs, job{Minor: minor, Chapter: c.name, Scenarios: left})
			}
		}
	}
	return jobs
}
