// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/traffic"
)

// scenario is one thing that users do, with checks of the outcome: run ends at the first error, see package must. The note
// that it returns is shown in the table.
type scenario struct {
	name string
	run  func(context.Context, *env) (note string)
}

// chapter is a list of scenarios that run in this order on one cluster.
type chapter struct {
	name      string
	world     func() *place
	scenarios []scenario
}

// result is the result of a scenario, one line of the table. A sandbox writes it as JSON.
type result struct {
	Minor                         plane.Minor
	Chapter, Scenario, Note, Fail string
	Took                          time.Duration
	// Traffic holds the reports of steady traffic; parts have names only where there are several.
	Traffic []traffic.Report
	// Cluster is how long the chapter's nodes took to become ready; set only for the chapter's first scenario.
	Cluster time.Duration
}

// scenarioLimit is long enough for a busy machine.
const scenarioLimit = 10 * time.Minute

// run runs the scenarios of a job. The first scenario, which installs the controller, always runs; when it fails, the others
// do not.
func (c *chapter) run(ctx context.Context, p *programs, j job, log io.Writer) []result {
	_, _ = fmt.Fprintf(log, "\n== %s, Kubernetes %s\n", c.name, j.Minor.Release())
	start := time.Now()
	e, err := newEnv(ctx, p, j.Minor, c.world(), log)
	if err != nil {
		_, _ = fmt.Fprintf(log, "FAIL  three nodes: %v\n", err)
		return []result{{Minor: j.Minor, Chapter: c.name, Scenario: "three nodes", Fail: err.Error()}}
	}
	defer e.stop()
	cluster := time.Since(start)
	_, _ = fmt.Fprintf(log, "      %s: three nodes are ready (%s)\n", c.name, cluster.Round(time.Second))
	var all []result
	for i, s := range c.scenarios {
		if i > 0 && !slices.Contains(j.Scenarios, s.name) {
			continue
		}
		r := e.runScenario(ctx, s)
		r.Minor, r.Chapter = j.Minor, c.name
		if i == 0 {
			r.Cluster = cluster
		}
		all = append(all, r)
		if r.Fail != "" {
			_, _ = fmt.Fprintf(log, "FAIL  %s: %v\n", s.name, r.Fail)
			e.explain(ctx)
		} else {
			_, _ = fmt.Fprintf(log, "ok    %s (%s) %s\n", s.name, r.Took.Round(time.Second), r.Note)
		}
		if i == 0 && r.Fail != "" || ctx.Err() != nil {
			break
		}
	}
	return all
}

// unproven returns the chapter's scenarios that match only and have not succeeded: they failed, or did not run because
// the first scenario failed.
func (c *chapter) unproven(minor plane.Minor, only *regexp.Regexp, all []result) []string {
	var names []string
	for _, s := range c.scenarios {
		proven := slices.ContainsFunc(all, func(r result) bool { return r.Minor == minor && r.Scenario == s.name && r.Fail == "" })
		if only.MatchString(s.name) && !proven {
			names = append(names, s.name)
		}
	}
	return names
}

func (e *env) runScenario(ctx context.Context, s scenario) result {
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	start := time.Now()
	e.clients = nil
	var note string
	err := must.Catch(func() { note = s.run(ctx, e) })
	err = errors.Join(err, must.Catch(func() { e.deleteServices(ctx) }))
	r := result{Scenario: s.name, Took: time.Since(start), Note: note}
	if err != nil {
		r.Fail = err.Error()
	}
	for _, c := range e.clients {
		r.Traffic = append(r.Traffic, c.Reports()...)
	}
	return r
}
