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
	"strings"
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

// result is the result of a scenario, one line of the table.
type result struct {
	minor    plane.Minor
	chapter  string
	scenario string
	took     time.Duration
	note     string
	err      error
	// traffic holds the reports of steady traffic; parts have names only where there are several.
	traffic []traffic.Report
	// cluster is how long the chapter's nodes took to become ready; set only for the chapter's first scenario.
	cluster time.Duration
}

// scenarioLimit is long enough for a busy machine.
const scenarioLimit = 10 * time.Minute

// run runs the chapter's scenarios that match only. The first scenario, which installs
// the controller, always runs; when it fails, the others do not run.
func (c *chapter) run(ctx context.Context, p *programs, minor plane.Minor, only *regexp.Regexp, log io.Writer) []result {
	var wanted []scenario
	for i, s := range c.scenarios {
		if i == 0 || only.MatchString(s.name) {
			wanted = append(wanted, s)
		}
	}
	if ctx.Err() != nil || len(wanted) == 1 && !only.MatchString(wanted[0].name) {
		return nil
	}
	_, _ = fmt.Fprintf(log, "\n== %s, Kubernetes %s\n", c.name, minor.Release())
	fail := func(name string, err error) result {
		_, _ = fmt.Fprintf(log, "FAIL  %s: %v\n", name, err)
		return result{minor: minor, chapter: c.name, scenario: name, err: err}
	}
	start := time.Now()
	e, err := newEnv(ctx, p, minor, c.world(), log)
	if err != nil {
		return []result{fail("three nodes", err)}
	}
	defer e.stop() //nolint:contextcheck // also after the end of ctx
	cluster := time.Since(start)
	_, _ = fmt.Fprintf(log, "      %s: three nodes are ready (%s)\n", c.name, cluster.Round(time.Second))
	var all []result
	for i, s := range wanted {
		r := e.runScenario(ctx, s)
		r.minor, r.chapter = minor, c.name
		if i == 0 {
			r.cluster = cluster
		}
		all = append(all, r)
		if r.err != nil {
			_, _ = fmt.Fprintf(log, "FAIL  %s: %v\n", s.name, r.err)
			e.explain(ctx)
		} else {
			_, _ = fmt.Fprintf(log, "ok    %s (%s) %s\n", s.name, r.took.Round(time.Second), r.note)
		}
		if i == 0 && r.err != nil || ctx.Err() != nil {
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
		proven := slices.ContainsFunc(all, func(r result) bool { return r.minor == minor && r.scenario == s.name && r.err == nil })
		if only.MatchString(s.name) && !proven {
			names = append(names, s.name)
		}
	}
	return names
}

// named returns a regular expression that matches only these names.
func named(names []string) *regexp.Regexp {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return regexp.MustCompile("^(" + strings.Join(quoted, "|") + ")$")
}

func (e *env) runScenario(ctx context.Context, s scenario) result {
	ctx, cancel := context.WithTimeout(ctx, scenarioLimit)
	defer cancel()
	start := time.Now()
	e.clients = nil
	var note string
	err := must.Catch(func() { note = s.run(ctx, e) })
	err = errors.Join(err, must.Catch(func() { e.deleteServices(ctx) }))
	r := result{scenario: s.name, took: time.Since(start), note: note, err: err}
	for _, c := range e.clients {
		r.traffic = append(r.traffic, c.Reports()...)
	}
	return r
}
