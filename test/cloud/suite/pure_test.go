// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestScenarioTable: names are unique, namespaces are valid and differ, and the scenarios of one place stand together.
func TestScenarioTable(t *testing.T) {
	t.Parallel()
	names, namespaces, places := map[string]bool{}, map[string]string{}, []string{}
	for _, s := range scenarios() {
		if names[s.name] || !strings.HasPrefix(s.name, s.at+": ") || s.run == nil {
			t.Errorf("scenario %q at %q", s.name, s.at)
		}
		names[s.name] = true
		ns := namespaceOf(&s)
		if other := namespaces[ns]; !s.trusted && other != "" && strings.HasPrefix(other, s.at) || len(ns) > 63 || notInNames.MatchString(strings.ReplaceAll(ns, "-", "")) {
			t.Errorf("%q has the namespace %q of %q", s.name, ns, other)
		}
		namespaces[ns] = s.name
		if len(places) == 0 || places[len(places)-1] != s.at {
			if slices.Contains(places, s.at) {
				t.Errorf("%q stands apart from the others there", s.name)
			}
			places = append(places, s.at)
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	if all, err := Select(nil, 0); err != nil || len(all) != len(scenarios()) {
		t.Error(all, err)
	}
	some, err := Select([]string{"PROXY"}, 0)
	if err != nil || len(some) != 3 {
		t.Error(some, err)
	}
	if _, err := Select([]string{"nothing like it"}, 0); err == nil {
		t.Error("an unknown name passes")
	}
	var thirds []string
	for part := 1; part <= 3; part++ {
		names, err := Select(nil, part)
		if err != nil || len(names) < 10 {
			t.Error(part, names, err)
		}
		thirds = append(thirds, names...)
	}
	if !slices.Equal(thirds, Names()) {
		t.Error(thirds)
	}
	for _, c := range []struct {
		only []string
		part int
	}{{nil, 4}, {nil, -1}, {[]string{"PROXY"}, 1}} {
		if names, err := Select(c.only, c.part); err == nil {
			t.Error(c, names)
		}
	}
}

// TestReport: what cannot be done is not passed, and a refused call fails a run in which all scenarios passed.
func TestReport(t *testing.T) {
	t.Parallel()
	ok := Result{Name: "a", Verdict: passed, Took: 1500 * time.Millisecond, Calls: 7, Seen: "1|2"}
	for name, c := range map[string]struct {
		report Report
		ok     bool
	}{
		"passed":         {Report{Results: []Result{ok}}, true},
		"cannot":         {Report{Results: []Result{ok, {Name: "b", Verdict: unable, Seen: "no VPC offering"}}}, true},
		"cannot at all":  {Report{Results: []Result{{Name: "b", Verdict: unable}}}, false},
		"failed":         {Report{Results: []Result{ok, {Name: "b", Verdict: failed, Seen: "two\nlines"}}}, false},
		"guard":          {Report{Results: []Result{ok}, Refused: []string{"deleteNetwork: id=x"}}, false},
		"something left": {Report{Results: []Result{ok}, Left: errors.New("network n is in use")}, false},
		"nothing run":    {Report{}, false},
	} {
		assert.Equal(t, c.ok, c.report.OK(), name)
		for _, x := range c.report.Results {
			if !strings.Contains(c.report.Markdown(), "| "+x.Name+" |") {
				t.Errorf("%s: no line of %s", name, x.Name)
			}
		}
	}
	if page := (&Report{Results: []Result{ok}}).Markdown(); !strings.Contains(page, `| a | ok | 1.5 | 7 | 1\|2 |`) {
		t.Error(page)
	}
}
