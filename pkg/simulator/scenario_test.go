// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The recordings in testdata/golden are replayed in the order in which they
// were made, on one simulator that begins as a fresh installation. Nothing is
// put into its state from behind: testdata/golden-scenario.txt holds the calls
// that set the scene and those that must have been made between the recordings.

// scenario replays the recordings.
type scenario struct {
	t       *testing.T
	h       *harness
	cases   []*goldenCase
	byName  map[string]*goldenCase
	script  *script
	ids     *bindings
	keys    map[string][2]string // of callers
	oldKeys map[string][2]string // those before the last registration
	session sessionState
	undo    []func() // disarm the faults of a case
}

func newScenario(t *testing.T) *scenario {
	t.Helper()
	s := &scenario{
		t: t, h: start(t, Options{World: FreshWorld(), Latency: LatencyProfile{Job: time.Second}}), cases: loadGolden(t),
		byName: map[string]*goldenCase{}, keys: map[string][2]string{}, oldKeys: map[string][2]string{},
	}
	for _, c := range s.cases {
		s.byName[c.Case] = c
	}
	s.ids = newBindings(t, s.cases)
	s.script = readScript(t, "testdata/golden-scenario.txt")
	for name, steps := range readScript(t, "testdata/golden-neighbours.txt").before {
		s.script.before[name] = append(s.script.before[name], steps...)
	}
	for name := range s.script.before {
		require.Contains(t, s.byName, name, "the script names a case that is not recorded")
	}
	for _, step := range s.script.start {
		require.Empty(t, s.run(step))
	}
	return s
}

func TestGoldenScenario(t *testing.T) {
	t.Parallel()
	s := newScenario(t)
	results := map[string]verdict{}
	for _, c := range s.cases {
		results[c.Case] = s.replay(c)
	}
	report(t, s.cases, s.byName, results)
	checkKnown(t, s.cases, results, "testdata/golden-known.txt")
}

// replay makes the calls before a case, then its own, and compares.
func (s *scenario) replay(c *goldenCase) verdict {
	if why := s.script.skip[c.Case]; why != "" {
		return verdict{"skip", why}
	}
	s.pass(c)
	for _, step := range s.script.before[c.Case] {
		if why := s.run(step); why != "" {
			t := "a call before it: " + why
			return verdict{"fail", t}
		}
	}
	if c.polled {
		if _, bound := s.ids.ours[fmt.Sprint(c.Params["jobid"])]; !bound {
			return verdict{"skip", "the call that submitted the job failed or is not recorded"}
		}
	}
	got := s.send(c)
	for _, f := range s.undo {
		f()
	}
	s.undo = nil
	s.rememberKeys(c, got)
	if why := s.compare(c, got); why != "" {
		s.ids.adopt(c, got)
		return verdict{"fail", why}
	}
	return verdict{"pass", ""}
}

// pass lets the time pass that the caller of a case waited: until the jobs of
// the calls before have ended, unless it polls on purpose or belongs to calls
// that were made at once.
func (s *scenario) pass(c *goldenCase) {
	switch {
	case s.script.midJob[c.Case]:
		s.h.clock.Step(500 * time.Millisecond)
	case !c.pending && !s.script.atOnce[c.Case] && !s.sameMoment(c):
		s.h.clock.Step(1100 * time.Millisecond) // jobs take a second
	}
	s.h.sim.runDue()
}

// sameMoment tells whether a case is one of several calls made at once and not the first of them.
func (s *scenario) sameMoment(c *goldenCase) bool {
	if c.polled || c.index == 0 || !strings.HasPrefix(c.Case, "concurrent.") && !strings.HasPrefix(c.Case, "parallel.") {
		return false
	}
	group := func(name string) string { return strings.TrimRight(strings.Split(name, ".job-")[0], "0123456789") }
	return group(c.Case) == group(s.cases[c.index-1].Case)
}

// compare returns how the answer differs from the recording; empty when it does not.
func (s *scenario) compare(c *goldenCase, got reply) string {
	if got.status != c.HTTPStatus {
		return fmt.Sprintf("status %d instead of %d: %s", got.status, c.HTTPStatus, brief(got.body))
	}
	if c.Case == "auth.root" || c.Case == "auth.wrong-path" {
		return "" // HTML: the status is all that counts
	}
	if c.ContentType != "" && !strings.EqualFold(strings.ReplaceAll(c.ContentType, " ", ""), strings.ReplaceAll(got.contentType, " ", "")) {
		return fmt.Sprintf("content type %q instead of %q", got.contentType, c.ContentType)
	}
	s.ids.begin(c, got)
	why := (&comparer{same: s.ids.sameText, ours: s.ids.translate}).diff("", "", c.Response, got.body)
	s.ids.end(why == "")
	return why
}
