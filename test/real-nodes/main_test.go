// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/gateway"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/traffic"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []plane.Minor
		err  string
	}{
		{nil, []plane.Minor{plane.Newest}, ""},
		{[]string{"--minor", "1.35"}, []plane.Minor{"1.35"}, ""},
		{[]string{"--minor", "all"}, plane.Minors(), ""},
		{[]string{"--minor", "1.20"}, nil, "no control plane of Kubernetes 1.20"},
		{[]string{"--only", "("}, nil, "--only: "},
		{[]string{"--lanes", "0"}, nil, "--lanes 0: at least 1"},
		{[]string{"now"}, nil, "only flags are supported"},
		{[]string{"--only", "no such"}, nil, "--only: no scenario matches"},
	} {
		s, err := parse(c.args, io.Discard)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v, want %q", c.args, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(s.minors, c.want) {
			t.Errorf("%v: %+v, %v", c.args, s, err)
		}
	}
}

// TestWorlds loads every chapter's simulated CloudStack and checks the addresses of its nodes and the scenarios' names.
func TestWorlds(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range chapters() {
		p := c.world()
		sim, err := simulator.New(simulator.Options{World: p.world})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		sim.Close()
		for _, n := range p.nodes {
			if !p.gateway.Contains(n.Address) || n.Address == p.gateway.Addr() {
				t.Errorf("%s: node %s has the address %s, which is not a node address of %s", c.name, n.Name, n.Address, p.gateway)
			}
		}
		for _, s := range c.scenarios {
			if names[s.name] {
				t.Errorf("two scenarios are called %q", s.name)
			}
			names[s.name] = true
		}
	}
}

// TestJobs: a chapter runs when one of its scenarios does, and what has not succeeded runs again.
func TestJobs(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"--minor", "1.36", "--only", "chart alone|in a project$"}, io.Discard)
	require.NoError(t, err)
	first := s.jobs(nil)
	want := []job{
		{"1.36", "installed by the chart alone", []string{"TCP Service, chart alone"}},
		{"1.36", "project", []string{"csccm install, nodes in a project", "TCP Service, nodes in a project"}},
	}
	require.Equal(t, want, first)
	// Each job's results come back in its place.
	all := runAll(first, 2, func(j job) []result {
		r := result{Minor: j.Minor, Chapter: j.Chapter, Scenario: "TCP Service, chart alone"}
		if j.Chapter == "project" {
			r.Scenario, r.Fail = "TCP Service, nodes in a project", "it broke"
		}
		return []result{r}
	})
	if len(all) != 2 || all[0].Chapter != first[0].Chapter || all[1].Chapter != first[1].Chapter {
		t.Fatalf("results %+v", all)
	}
	assert.Equal(t, want[1:], s.jobs(all), "again")
}

// TestLeftOut: what cannot run here is no job, also not a failed one that runs again.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"--only", "Gateway API: (Traefik|its)"}, io.Discard)
	require.NoError(t, err)
	s.leftOut = gatewayNames()
	assert.Equal(t, []job{{plane.Newest, "installed by csccm", []string{"Gateway API: its objects in all examples"}}}, s.jobs(nil))
	if got := notTested(s.leftOut); !strings.Contains(got, gateways[1].name) || !strings.Contains(got, "plane-build traefik") {
		t.Errorf("got %q", got)
	}
	assert.Empty(t, notTested(nil))
}

// TestUnproven: one success on a minor proves a scenario for that minor; scenarios that --only excludes are ignored.
func TestUnproven(t *testing.T) {
	t.Parallel()
	three := chapter{scenarios: []scenario{{name: "install"}, {name: "TCP (one)"}, {name: "UDP"}}}
	const broke = "it broke"
	for _, c := range []struct {
		name, only string
		all        []result
		want       []string
	}{
		{"all ran", "", []result{{Scenario: "install"}, {Scenario: "TCP (one)"}, {Scenario: "UDP"}}, nil},
		{"one failed", "", []result{{Scenario: "install"}, {Scenario: "TCP (one)", Fail: broke}, {Scenario: "UDP"}}, []string{"TCP (one)"}},
		{"fails, then succeeds", "", []result{{Scenario: "TCP (one)", Fail: broke}, {Scenario: "UDP"}, {Scenario: "install"}, {Scenario: "TCP (one)"}}, nil},
		{"no cluster", "", []result{{Scenario: "three nodes", Fail: broke}}, []string{"install", "TCP (one)", "UDP"}},
		{"the first failed", "", []result{{Scenario: "install", Fail: broke}}, []string{"install", "TCP (one)", "UDP"}},
		{"the first failed, with --only", "UDP", []result{{Scenario: "install", Fail: broke}}, []string{"UDP"}},
		{"on another minor", "^UDP$", []result{{Scenario: "UDP", Minor: "1.35"}}, []string{"UDP"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for i := range c.all {
				c.all[i].Minor = cmp.Or(c.all[i].Minor, plane.Newest)
			}
			got := three.unproven(plane.Newest, regexp.MustCompile(c.only), c.all)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	all := []result{
		{Minor: "1.37", Chapter: "c", Scenario: "one", Took: 3 * time.Second, Note: "a | b", Cluster: 7 * time.Second, Traffic: []traffic.Report{
			{Name: "first", Requests: 10, Failures: 1, LongestGap: 1500 * time.Microsecond, Cut: 2}, {Requests: 20}}},
		{Minor: "1.37", Chapter: "c", Scenario: "second", Took: time.Minute, Fail: "it broke\nwith details"},
	}
	other := append(slices.Clone(all), result{Minor: "1.36", Chapter: "c", Scenario: "one", Traffic: []traffic.Report{{Requests: 7}}})
	want := "| requests / failures / longest gap | 1.37 | 1.36 |\n|---|---|---|\n" +
		"| one: first | 10 / 1 / 2ms, 2 connections cut |  |\n| one | 20 / 0 / 0s | 7 / 0 / 0s |\n"
	assert.Equal(t, want, trafficTable(other))
	if got := page(all); !strings.Contains(got, "| one | ok | 3s | a \\| b |\n| second | **failed** | 1m0s | it broke |\n") || strings.Contains(got, "details") {
		t.Errorf("got:\n%s", got)
	}
}

// TestIngresses checks that each example has one image with a version, which standIns replaces.
func TestIngresses(t *testing.T) {
	t.Parallel()
	for _, i := range ingresses {
		if refs := imagesOf(filepath.Join("..", ".."), i.file); len(refs) != 1 || !strings.Contains(refs[0], ":v") {
			t.Errorf("%s: images %v, want one with a version", i.file, refs)
		}
	}
}

// TestGateways checks that Traefik is built in a version that the examples' image has.
func TestGateways(t *testing.T) {
	t.Parallel()
	ref := gatewayImage(filepath.Join("..", ".."))
	traefik, err := gateway.Traefik()
	require.NoError(t, err)
	if _, tag, _ := strings.Cut(ref, ":"); !strings.HasPrefix(traefik.Release, tag+".") {
		t.Errorf("the examples have the image %s, the version that is built is %s", ref, traefik.Release)
	}
}
