// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/test/conformance"
	"github.com/csccm/csccm/test/gateway"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/realnode"
	"github.com/csccm/csccm/test/testenv"
	"github.com/csccm/csccm/test/traffic"
)

// programs are built before the sandbox starts, because there is no network inside it.
type programs struct {
	Plane    string // the folder of the control plane's programs
	Node     string // the folder of the nodes' programs
	Binaries testenv.Binaries
	Images   []string
	Root     string // the folder of the checkout
	// Conformance are the programs of Kubernetes' tests, in chapters that run them.
	Conformance conformance.Programs
	// Gateway are Traefik and what it needs, in chapters that run it.
	Gateway gateway.Programs
}

// prepare builds all programs and images.
func (s *settings) prepare(ctx context.Context, minor plane.Minor) *programs {
	module := must.Get(plane.ModuleDir())
	p := &programs{Root: filepath.Dir(module), Plane: must.Get(plane.Ensure(ctx, minor, os.Stderr))}
	p.Node = must.Get(plane.EnsureNode(ctx, minor, os.Stderr))
	_, _ = fmt.Fprintln(os.Stderr, "Building the programs and images.")
	p.Binaries = must.Get(testenv.Build(ctx, os.Stderr))
	images := filepath.Join(filepath.Dir(p.Binaries.CLI), "images")
	p.Images = realnode.BuildImages(ctx, module, images, imageVersion)

	// Images with our programs and the names that manifests of other projects use.
	standIns := map[string]string{leasewebImage: p.Binaries.Controller}
	if s.traefik {
		p.Gateway = must.Get(gateway.Ensure(ctx, os.Stderr))
	}

	for _, example := range examples {
		text := must.Get(os.ReadFile(filepath.Join(p.Root, "docs/examples", example.file)))
		standIns[imageLine.FindStringSubmatch(string(text))[1]] = cmp.Or(p.Gateway.Traefik,
			filepath.Join(images, "echo"))
	}

	for ref, binary := range standIns {
		archive := filepath.Join(images, strings.NewReplacer("/", "_", ":", "_").Replace(ref)+".tar")
		realnode.WriteImage(archive, ref, binary, nil)
		p.Images = append(p.Images, archive)
	}

	return p
}

var imageLine = regexp.MustCompile(`(?m)^\s*image: (\S+)$`)

// chapter is a list of scenarios that run in this order on one cluster.
type chapter struct {
	name      string
	world     func() *place
	scenarios []scenario
}

// scenario is one thing that users do, with checks of the outcome. run ends at the first error, see package must. The
// table shows the note that run returns.
type scenario struct {
	name string
	run  func(context.Context, *env) (note string)
}

// job is what the program in a sandbox runs. Each chapter runs in its own sandbox and therefore in its own network:
// chapters that run at the same time have the same addresses.
type job struct {
	Chapter   string
	Scenarios []string
	Programs  *programs
}

// result is the result of a scenario: a line of the table. A sandbox writes it as JSON.
type result struct {
	Chapter, Scenario, Note, Fail string
	Took                          time.Duration
	// Traffic are the reports of steady traffic. Parts have names only if there are several.
	Traffic []traffic.Report
	// Tests are the outcomes of Kubernetes' tests.
	Tests []conformance.Outcome
}

const (
	jobVariable = "CSCCM_TRUTH_JOB"
	// scenarioLimit is enough for a busy machine and for the rolling updates of Kubernetes' tests.
	scenarioLimit = 40 * time.Minute
)

// runAll runs the jobs, as many at a time as there are lanes, and returns their results in the order of the jobs. Jobs
// can share the machine, because a chapter mostly waits: for leases, grace periods and connection tracking.
func runAll(jobs []job, lanes int, run func(job) []result) []result {
	all := make([][]result, len(jobs))
	var group errgroup.Group
	group.SetLimit(lanes)
	for i, j := range jobs {
		group.Go(func() error {
			all[i] = run(j)
			return nil
		})
	}
	_ = group.Wait()
	return slices.Concat(all...)
}

// inSandbox runs a job in a new sandbox.
func inSandbox(ctx context.Context, p *programs, j job) (results []result) {
	err := must.Catch(func() {
		must.OK(ctx.Err())
		var out bytes.Buffer
		j.Programs = p
		code := must.Get(realnode.Enter(ctx, &out, os.Stderr, jobVariable+"="+string(must.Get(json.Marshal(j)))))
		must.Be(code == 0, "the program in the sandbox ended with exit code %d", code)
		must.OK(json.Unmarshal(out.Bytes(), &results))
	})
	if err != nil {
		return []result{{Chapter: j.Chapter, Scenario: "sandbox", Fail: err.Error()}}
	}
	return results
}

// inside runs the job of this sandbox and writes its results. The first scenario always runs, because it installs the
// controller. If it fails, the others do not run.
func (s *settings) inside(ctx context.Context) {
	var j job
	must.OK(json.Unmarshal([]byte(os.Getenv(jobVariable)), &j))
	chapters := s.chapters()
	c := chapters[slices.IndexFunc(chapters, func(c chapter) bool { return c.name == j.Chapter })]
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", a...) }
	start := time.Now()
	e := newEnv(ctx, j.Programs, c.world())
	say("      %s: three nodes are ready (%s)", c.name, time.Since(start).Round(time.Second))
	all := []result{}
	for i, s := range c.scenarios {
		if i > 0 && (ctx.Err() != nil || !slices.Contains(j.Scenarios, s.name)) {
			continue
		}
		r := e.runScenario(ctx, s)
		r.Chapter = c.name
		all = append(all, r)
		if r.Fail == "" {
			say("ok    %s (%s) %s", s.name, r.Took.Round(time.Second), r.Note)
			continue
		}
		say("FAIL  %s: %v", s.name, r.Fail)
		e.explain(ctx)
		if i == 0 {
			break
		}
	}

	must.OK(json.NewEncoder(os.Stdout).Encode(all))
}

func (e *env) runScenario(ctx context.Context, s scenario) result {
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	r, start := result{Scenario: s.name}, time.Now()
	e.clients, e.tests = nil, nil
	err := must.Catch(func() { r.Note = s.run(ctx, e) })
	for _, c := range e.clients {
		c.Stop()
		r.Traffic = append(r.Traffic, c.Reports()...)
	}
	err = errors.Join(err,
		must.Catch(func() { e.kubectl(ctx, "delete", "services", "-l", "app="+echo, "--timeout=300s") }))
	r.Took, r.Tests = time.Since(start), e.tests
	if err != nil {
		r.Fail = err.Error()
	}
	return r
}
