// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command real-nodes runs scenarios with csccm on real nodes: kubelets with containerd in network namespaces, and Pods
// that answer requests. The simulated CloudStack forwards packets by its rules. The command prints a table and writes
// docs/real-nodes.md. It needs root.
package main

import (
	"context"
	"flag"
	"fmt"
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

// settings are the values of the flags.
type settings struct {
	minors       []plane.Minor
	only         *regexp.Regexp
	out          string
	check, again bool
	// forms are the forms in which Kubernetes' own tests run instead of the scenarios.
	forms   string
	rolling bool
	// traefik runs the examples of Traefik with Traefik itself, instead of the scenarios.
	traefik bool
}

func main() {
	realnode.Stage()
	s := settings{minors: []plane.Minor{plane.Newest}, only: regexp.MustCompile("")}
	flag.Func("minor", "minor of Kubernetes, with --conformance several; the newest without it",
		func(text string) (err error) {
			defer must.Return(&err)
			s.minors = nil
			for name := range strings.FieldsSeq(text) {
				s.minors = append(s.minors, must.Get(plane.ParseMinor(name)))
			}
			return nil
		})

	flag.Func("only", "run the scenarios whose name matches this regular expression", func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})

	flag.StringVar(&s.out, "out", "", "write the results to this Markdown file; not written with --only")
	flag.BoolVar(&s.check, "check", false,
		"check whether real nodes can run on this machine; print the reason in one line")
	flag.BoolVar(&s.again, "again", false,
		"run failed scenarios a second time; those that succeed then do not count as failed")
	flag.StringVar(&s.forms, "conformance", "",
		"run Kubernetes' own tests in these forms of test/conformance/tests.yaml, or in all")
	flag.BoolVar(&s.rolling, "rolling", false,
		"with --conformance: also the rolling updates, which take a quarter of an hour")
	flag.BoolVar(&s.traefik, "traefik", false,
		"run the examples of Traefik with Traefik itself, which is built once, in 3 to 8 minutes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 1
	if err := must.Catch(func() { code = s.run(ctx) }); err != nil {
		text := err.Error()
		if s.check {
			text = "they cannot run here: " + strings.Join(strings.Fields(text), " ")
		}
		_, _ = fmt.Fprintln(os.Stderr, "real-nodes:", text)
	}

	stop()
	os.Exit(code)
}

// run builds all programs, which may need network access, runs the scenarios in sandboxes and prints the table.
func (s *settings) run(ctx context.Context) (code int) {
	if _, in := realnode.Inside(); in {
		if s.check {
			realnode.Try(ctx)
		} else {
			s.inside(ctx)
		}
		return 0
	}

	must.OK(realnode.Check(ctx, os.Getenv("INSTALL_PACKAGES") == "1"))
	if s.check {
		return must.Get(realnode.Enter(ctx, os.Stdout, os.Stderr))
	}

	if len(s.jobs(nil)) == 0 {
		_, _ = fmt.Fprintln(os.Stderr, "No scenario has a name that --only matches. The scenarios:")
		for _, c := range s.chapters() {
			for _, sc := range c.scenarios {
				_, _ = fmt.Fprintln(os.Stderr, sc.name)
			}
		}
		return 2
	}

	if s.forms != "" {
		return s.conformance(ctx)
	}

	p := s.prepare(ctx, s.minors[0])
	before, start := realnode.ReadMachine(ctx, nil), time.Now()
	all := runAll(s.jobs(nil), 2, func(j job) []result { return inSandbox(ctx, p, j) })
	if left := s.jobs(all); s.again && ctx.Err() == nil && len(left) > 0 {
		_, _ = fmt.Fprintln(os.Stderr, "\nRunning again what failed.")
		for _, r := range runAll(left, 1, func(j job) []result { return inSandbox(ctx, p, j) }) {
			i := slices.IndexFunc(all, func(old result) bool { return old.Scenario == r.Scenario })
			if i < 0 {
				all = append(all, r)
			} else if all[i].Fail != "" {
				r.Note += "; at the first try: " + strings.Trim(firstLine(all[i].Fail), ": ")
				all[i] = r
			}
		}
	}

	text := page(s.minors[0], all, realnode.ReadMachine(context.WithoutCancel(ctx), before))
	fmt.Printf("%s\nAll of it took %s.\n", text, time.Since(start).Round(time.Second))
	if ctx.Err() != nil {
		return 130
	}

	if s.out != "" && s.only.String() == "" && !s.traefik { // otherwise the page would lack scenarios
		must.OK(os.WriteFile(s.out, []byte(text), 0o644)) // #nosec G306 -- documentation
	}

	return min(len(s.jobs(all)), 1)
}

// chapters returns the chapters to run.
func (s *settings) chapters() []chapter {
	switch {
	case s.traefik:
		return traefikChapters()
	case s.forms != "":
		return conformanceChapters(s.forms, s.rolling)
	default:
		return chapters()
	}
}

// jobs returns a job for each chapter. A job has the chapter's scenarios that match --only and have not succeeded:
// they failed, or did not run because the first scenario failed.
func (s *settings) jobs(all []result) []job {
	var jobs []job
	for _, c := range s.chapters() {
		j := job{Chapter: c.name}
		for _, sc := range c.scenarios {
			proven := slices.ContainsFunc(all, func(r result) bool { return r.Scenario == sc.name && r.Fail == "" })
			if s.only.MatchString(sc.name) && !proven {
				j.Scenarios = append(j.Scenarios, sc.name)
			}
		}
		if len(j.Scenarios) > 0 {
			jobs = append(jobs, j)
		}
	}
	return jobs
}
