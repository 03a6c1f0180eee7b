// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the list of recordings that do not pass, and the transcript")

// goldenCase is a recorded exchange.
type goldenCase struct {
	Case        string         `json:"case"`
	Command     string         `json:"command"`
	Caller      string         `json:"caller"`
	Params      map[string]any `json:"params"`
	HTTPStatus  int            `json:"httpStatus"`
	ContentType string         `json:"contentType"`
	Response    any            `json:"response"`

	index   int
	polled  bool   // a poll of the job of an earlier call
	pending bool   // that poll found it running
	base    string // the case whose job is polled
}

// result of one case.
type verdict struct {
	status string // pass, fail, skip
	why    string
}

func loadGolden(t *testing.T) []*goldenCase {
	t.Helper()
	var names []string
	readJSON(t, "testdata/golden/index.json", &names)
	out := make([]*goldenCase, 0, len(names))
	for i, n := range names {
		c := &goldenCase{index: i}
		readJSON(t, filepath.Join("testdata/golden", n+".json"), c)
		c.Case = n
		if base, kind, ok := strings.Cut(n, ".job-"); ok {
			c.polled, c.pending, c.base = true, kind == "pending", base
		}
		out = append(out, c)
	}
	return out
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(v), path)
}

// report logs N of M by command and in total.
func report(t *testing.T, cases []*goldenCase, byName map[string]*goldenCase, results map[string]verdict) {
	t.Helper()
	type tally struct{ pass, total int }
	by := map[string]*tally{}
	var sum tally
	for _, c := range cases {
		v, name := results[c.Case], c.Command
		if c.polled {
			name = "job of " + baseCommand(c, byName)
		}
		if by[name] == nil {
			by[name] = &tally{}
		}
		for _, n := range []*tally{by[name], &sum} {
			n.total++
			if v.status == "pass" {
				n.pass++
			}
		}
		if v.status != "pass" {
			t.Logf("%s: %s: %s", v.status, c.Case, v.why)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		t.Logf("golden: %-45s %3d of %3d", name, by[name].pass, by[name].total)
	}
	t.Logf("golden: %d of %d recorded cases", sum.pass, sum.total)
}

// baseCommand is the command whose job a case polls.
func baseCommand(c *goldenCase, byName map[string]*goldenCase) string {
	if base := byName[c.base]; base != nil {
		return base.Command
	}
	return "a call that is not recorded"
}

// checkKnown compares the results with the list of the cases that do not
// pass, or writes that list with -update.
func checkKnown(t *testing.T, cases []*goldenCase, results map[string]verdict, path string) {
	t.Helper()
	if *update {
		writeKnown(t, cases, results, path)
		return
	}
	known := readKnown(t, path)
	for _, c := range cases {
		got, want := results[c.Case], known[c.Case]
		if want == "" {
			want = "pass"
		}
		if got.status != want {
			t.Errorf("%s: %s, %s says %s: %s", c.Case, got.status, path, want, got.why)
		}
		delete(known, c.Case)
	}
	require.Empty(t, known, "%s lists what is no case", path)
}

// readKnown reads the list of cases that do not pass: "status case # reason".
func readKnown(t *testing.T, path string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	known := map[string]string{}
	for text := range strings.Lines(string(raw)) {
		line, _, _ := strings.Cut(text, " # ")
		if fields := strings.Fields(line); len(fields) == 2 {
			known[fields[1]] = fields[0]
		}
	}
	return known
}

func writeKnown(t *testing.T, cases []*goldenCase, results map[string]verdict, path string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Recordings that do not pass: fail, skip.\n" +
		"# Written by go test ./pkg/simulator -run TestGolden -update; the test fails when a case does better or worse.\n")
	for _, c := range cases {
		v := results[c.Case]
		if v.status == "pass" {
			continue
		}
		why := strings.Join(strings.Fields(v.why), " ")
		if len(why) > 160 {
			why = why[:160]
		}
		fmt.Fprintf(&b, "%-4s %s # %s\n", v.status, c.Case, why)
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
}
