// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/realnode"
)

// Each chapter runs in its own sandbox, and so in a network of its own: chapters that run at the same time have the same addresses.

// job is what the program in a sandbox runs.
type job struct {
	Minor     plane.Minor
	Chapter   string
	Scenarios []string
}

const jobVariable = "CSCCM_TRUTH_JOB"

// runAll runs the jobs, lanes of them at the same time, and returns their results in the order of the jobs. A chapter mostly
// waits: for leases, grace periods, and connection tracking.
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
func inSandbox(ctx context.Context, j job, log io.Writer) (results []result) {
	if ctx.Err() != nil {
		return nil
	}
	err := must.Catch(func() {
		var out bytes.Buffer
		env := []string{jobVariable + "=" + string(must.Get(json.Marshal(j)))}
		code := must.Get(realnode.Enter(ctx, realnode.Sandbox{Env: env, Stdout: &out, Stderr: log}))
		must.Be(code == 0, "the program in the sandbox ended with exit code %d", code)
		must.OK(json.Unmarshal(out.Bytes(), &results))
	})
	if err != nil {
		return []result{{Minor: j.Minor, Chapter: j.Chapter, Scenario: "sandbox", Fail: err.Error()}}
	}
	return results
}

// inside runs the job of this sandbox and writes its results.
func inside(ctx context.Context, rate int, stdout, stderr io.Writer) (err error) {
	defer must.Return(&err)
	p := &programs{}
	must.OK(json.Unmarshal([]byte(os.Getenv(preparedVariable)), p))
	p.Rate = rate
	var j job
	must.OK(json.Unmarshal([]byte(os.Getenv(jobVariable)), &j))
	chapters := chapters()
	i := slices.IndexFunc(chapters, func(c chapter) bool { return c.name == j.Chapter })
	return json.NewEncoder(stdout).Encode(chapters[i].run(ctx, p, j, stderr))
}
