// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/realnode"
	"github.com/csccm/csccm/test/traffic"
)

// Each chapter runs in its own sandbox, and so in a network of its own: chapters that run at the same time have the same addresses.

// job is what the program in a sandbox runs.
type job struct {
	Minor   plane.Minor
	Chapter string
	Only    string
}

const jobVariable = "CSCCM_TRUTH_JOB"

// runAll runs the jobs, lanes of them at the same time, and returns their results in the order of the jobs. A chapter mostly
// waits: for leases, grace periods, and connection tracking.
func runAll(jobs []job, lanes int, run func(job) []result) []result {
	all := make([][]result, len(jobs))
	next := make(chan int, len(jobs))
	for i := range jobs {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(lanes, len(jobs)) {
		wg.Go(func() {
			for i := range next {
				all[i] = run(jobs[i])
			}
		})
	}
	wg.Wait()
	var flat []result
	for _, r := range all {
		flat = append(flat, r...)
	}
	return flat
}

// inSandbox runs a job in a new sandbox.
func inSandbox(ctx context.Context, j job, log io.Writer) []result {
	if ctx.Err() != nil {
		return nil
	}
	fail := func(err error) []result {
		return []result{{minor: j.Minor, chapter: j.Chapter, scenario: "sandbox", err: err}}
	}
	text, err := json.Marshal(j)
	if err != nil {
		return fail(err)
	}
	var out bytes.Buffer
	code, err := realnode.Enter(ctx, realnode.Sandbox{Env: []string{jobVariable + "=" + string(text)}, Stdout: &out, Stderr: log})
	var results []result
	switch {
	case err != nil:
		return fail(err)
	case code != 0:
		return fail(fmt.Errorf("the program in the sandbox ended with exit code %d", code))
	}
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		return fail(err)
	}
	return results
}

// inside runs the job of this sandbox and writes its results.
func inside(ctx context.Context, rate int, stdout, stderr io.Writer) (err error) {
	defer must.Return(&err)
	p := must.Get(prepared())
	p.Rate = rate
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(jobVariable)), &j); err != nil {
		return fmt.Errorf("%s: %w", jobVariable, err)
	}
	only := must.Get(regexp.Compile(j.Only))
	var all []result
	for _, c := range chapters() {
		if c.name == j.Chapter {
			all = c.run(ctx, p, j.Minor, only, stderr)
		}
	}
	return json.NewEncoder(stdout).Encode(all)
}

// wire is a result as JSON.
type wire struct {
	Minor                         plane.Minor
	Chapter, Scenario, Note, Fail string
	Took, Cluster                 time.Duration
	Traffic                       []traffic.Report
}

// MarshalJSON writes the result for the process outside of the sandbox.
func (r result) MarshalJSON() ([]byte, error) {
	w := wire{Minor: r.minor, Chapter: r.chapter, Scenario: r.scenario, Note: r.note, Took: r.took, Cluster: r.cluster, Traffic: r.traffic}
	if r.err != nil {
		w.Fail = r.err.Error()
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads a result of a sandbox.
func (r *result) UnmarshalJSON(b []byte) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = result{minor: w.Minor, chapter: w.Chapter, scenario: w.Scenario, note: w.Note, took: w.Took, cluster: w.Cluster, traffic: w.Traffic}
	if w.Fail != "" {
		r.err = errors.New(w.Fail)
	}
	return nil
}
