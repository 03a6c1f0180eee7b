// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
)

// TestWorlds loads every chapter's simulated CloudStack and checks the addresses of its nodes and the scenarios' names.
func TestWorlds(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range chapters() {
		p := c.world()
		sim, err := simulator.New(simulator.Options{World: p.world})
		require.NoError(t, err, c.name)
		sim.Close()
		for _, n := range p.nodes {
			assert.True(t, p.gateway.Contains(n.Address) && n.Address != p.gateway.Addr(), "%s: %s", c.name, n.Address)
		}
		for _, s := range c.scenarios {
			assert.False(t, names[s.name], "two scenarios are called %q", s.name)
			names[s.name] = true
		}
	}
}

// TestJobs: a chapter runs if one of its scenarios does, and everything that has not succeeded runs again.
func TestJobs(t *testing.T) {
	t.Parallel()
	s := &settings{only: regexp.MustCompile("chart alone|in a project$")}
	want := []job{
		{Chapter: "installed by the chart alone", Scenarios: []string{"TCP Service, chart alone"}},
		{
			Chapter:   "project",
			Scenarios: []string{"csccm install, nodes in a project", "TCP Service, nodes in a project"},
		},
	}

	require.Equal(t, want, s.jobs(nil))

	// The results of each job are returned in its place.
	all := runAll(want, 2, func(j job) []result { return []result{{Chapter: j.Chapter, Scenario: j.Scenarios[0]}} })
	all[1].Fail = "the first failed, so the others did not run"
	assert.Equal(t, want[1:], s.jobs(all))
	all[1].Fail = ""
	again := []job{{Chapter: "project", Scenarios: want[1].Scenarios[1:]}}
	assert.Equal(t, again, s.jobs(all))
	assert.Empty(t, s.jobs(append(all, result{Scenario: again[0].Scenarios[0]})))
}

// TestGap: if no more questions are answered, the gap lasts until the end.
func TestGap(t *testing.T) {
	t.Parallel()
	const pause = 20 * time.Millisecond
	asked, lost := 0, make(chan struct{})
	q := keepAsking(0, func() {
		if asked++; asked == 1 {
			return
		}
		time.Sleep(pause)
		if asked == 2 {
			close(lost)
		}
		must.Fail("lost")
	})
	<-lost
	q.end()
	assert.GreaterOrEqual(t, q.gap, pause)
	assert.Equal(t, q.sent-1, q.lost)
}
