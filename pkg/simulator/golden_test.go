// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The recordings in testdata/golden are replayed in the order in which they
// were made, on one simulator. Other calls were made in between that are not
// among them. Therefore
//   - objects that a recording names and that nothing here has made are put
//     into the state first, as the recordings describe them (golden_state_test.go);
//   - when a list differs, the state is set to what the recording shows and the
//     list is called again. Such a case counts as "aligned": it shows that the
//     answer is right, not that the state before it came about by itself.
//
// testdata/golden-known.txt lists the cases that do not pass by themselves.
// The test fails when any case does better or worse than listed there.

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
	status string // pass, aligned, fail, skip
	why    string
}

// goldenCommands are the commands whose recordings count: those implemented,
// and what belongs to the request layer.
func (r *replayer) counts(c *goldenCase) bool {
	if c.polled {
		base := r.byName[c.base]
		return base != nil && r.counts(base)
	}
	if c.Command == "raw" || c.Command == "noSuchCommand" || c.Command == "login" || strings.HasPrefix(c.Case, "auth.") {
		return true
	}
	if c.HTTPStatus == codeUnsupported {
		return true // refused before the command matters
	}
	a := r.h.sim.cat.byName[c.Command]
	return a != nil && a.cmd != nil
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

// readKnown reads the list of cases that do not pass by themselves: "status case # reason".
func readKnown(t *testing.T) map[string]verdict {
	t.Helper()
	f, err := os.Open("testdata/golden-known.txt")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	known := map[string]verdict{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line, why, _ := strings.Cut(s.Text(), " # ")
		if fields := strings.Fields(line); len(fields) == 2 {
			known[fields[1]] = verdict{fields[0], why}
		}
	}
	return known
}

func TestGolden(t *testing.T) {
	t.Parallel()
	r := newReplayer(t)
	results := map[string]verdict{}
	for _, c := range r.cases {
		v := r.replay(c)
		if r.counts(c) {
			results[c.Case] = v
		}
	}
	report(t, r, results)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		writeKnown(t, r, results)
		return
	}
	known := readKnown(t)
	for _, c := range r.cases {
		got, counted := results[c.Case]
		if !counted {
			continue
		}
		want, listed := known[c.Case]
		if !listed {
			want.status = "pass"
		}
		if got.status != want.status {
			t.Errorf("%s: %s, golden-known.txt says %s: %s", c.Case, got.status, want.status, got.why)
		}
	}
	for name := range known {
		if _, ok := results[name]; !ok {
			t.Errorf("golden-known.txt lists %s, which is no case of an implemented command", name)
		}
	}
}

// report logs N of M by command and in total.
func report(t *testing.T, r *replayer, results map[string]verdict) {
	t.Helper()
	type tally struct{ pass, aligned, total int }
	by := map[string]*tally{}
	var sum tally
	for _, c := range r.cases {
		v, ok := results[c.Case]
		if !ok {
			continue
		}
		name := c.Command
		if c.polled {
			name = "job of " + r.byName[c.base].Command
		}
		if by[name] == nil {
			by[name] = &tally{}
		}
		for _, n := range []*tally{by[name], &sum} {
			n.total++
			switch v.status {
			case "pass":
				n.pass++
			case "aligned":
				n.aligned++
			}
		}
		if v.status == "skip" || v.status == "fail" {
			t.Logf("%s: %s: %s", v.status, c.Case, v.why)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		n := by[name]
		t.Logf("golden: %-45s %3d of %3d (%d after setting the state)", name, n.pass+n.aligned, n.total, n.aligned)
	}
	t.Logf("golden: %d of %d cases of implemented commands (%d of them after setting the state from the recording); %d recorded in all",
		sum.pass+sum.aligned, sum.total, sum.aligned, len(r.cases))
}

func writeKnown(t *testing.T, r *replayer, results map[string]verdict) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Recordings that do not pass by themselves: aligned (passes once the state is set as recorded), fail, skip.\n" +
		"# Written by UPDATE_GOLDEN=1 go test ./pkg/simulator -run TestGolden; the test fails when a case does better or worse.\n")
	for _, c := range r.cases {
		if v, ok := results[c.Case]; ok && v.status != "pass" {
			why := strings.Join(strings.Fields(v.why), " ")
			if v.status == "aligned" {
				why = ""
			}
			if len(why) > 160 {
				why = why[:160]
			}
			fmt.Fprintf(&b, "%-7s %s", v.status, c.Case)
			if why != "" {
				b.WriteString(" # " + why)
			}
			b.WriteByte('\n')
		}
	}
	require.NoError(t, os.WriteFile("testdata/golden-known.txt", []byte(b.String()), 0o644))
}

// replayer sends the recordings to one simulator.
type replayer struct {
	t        *testing.T
	h        *harness
	cases    []*goldenCase
	byName   map[string]*goldenCase
	recorded map[string]bool      // every UUID of the recordings
	learned  map[string]string    // recorded UUID of something without a row -> ours
	views    []view               // every object that an answer describes, in order
	keys     map[string][2]string // keys that single cases use
	oldKeys  [2]string
	session  sessionState
	inserted map[string]bool // objects that the replay itself put into the state
	other    *vpc            // a VPC that is there for a few cases only
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

func newReplayer(t *testing.T) *replayer {
	t.Helper()
	raw, err := os.Open("testdata/golden-world.yaml")
	require.NoError(t, err)
	w, err := LoadWorld(raw)
	require.NoError(t, err)
	require.NoError(t, raw.Close())
	r := &replayer{
		t: t, h: start(t, Options{World: w, Latency: LatencyProfile{Job: time.Second}}), cases: loadGolden(t),
		byName: map[string]*goldenCase{}, recorded: map[string]bool{}, learned: map[string]string{}, keys: map[string][2]string{}, inserted: map[string]bool{},
	}
	for _, v := range r.h.sim.st.netOffs.rows {
		v.created = r.h.clock.Now()
	}
	var addresses map[string]string
	readJSON(t, "testdata/golden-addresses.json", &addresses)
	for _, ip := range r.h.sim.st.ips.rows {
		if id := addresses[ip.addr.String()]; id != "" {
			r.h.sim.st.ips.rename(ip, id)
		}
	}
	for _, c := range r.cases {
		r.byName[c.Case] = c
		text, err := json.Marshal(c)
		require.NoError(t, err)
		for _, id := range uuidPattern.FindAllString(string(text), -1) {
			r.recorded[id] = true
		}
		r.collectViews(c)
	}
	r.environment()
	return r
}

// replay sends one case and compares.
func (r *replayer) replay(c *goldenCase) verdict {
	if why := skipReason(c); why != "" {
		return verdict{"skip", why}
	}
	for _, table := range []map[string]func(*replayer){preparations, vmPreparations} {
		if prepare := table[c.Case]; prepare != nil {
			prepare(r)
		}
	}
	if c.polled {
		if _, ok := r.h.sim.st.jobs.get(fmt.Sprint(c.Params["jobid"])); !ok {
			return verdict{"skip", "the call that submitted the job is not implemented or failed"}
		}
	}
	if midJob[c.Case] {
		r.h.clock.Step(500 * time.Millisecond)
		r.h.sim.runDue()
	}
	if r.jobsEnd(c) {
		r.h.clock.Step(1100 * time.Millisecond) // jobs take a second
		r.h.sim.runDue()
	}
	if !r.counts(c) {
		r.imitate(c)
		return verdict{"skip", "not implemented"}
	}
	r.ensure(c)
	if id := r.unknown(c); id != "" {
		return verdict{"skip", "the recordings do not describe the object " + id}
	}
	got := r.send(c)
	moved := r.adopt(c, &got)
	why := r.compare(c, got)
	switch {
	case why == "" && moved:
		return verdict{"aligned", "another address was free"}
	case why == "":
		return verdict{"pass", ""}
	}
	if strings.HasPrefix(c.Command, "list") && c.HTTPStatus == 200 {
		r.align(c)
		if again := r.compare(c, r.send(c)); again == "" {
			return verdict{"aligned", why}
		} else { //nolint:revive // the second reason is the better one
			return verdict{"fail", again}
		}
	}
	return verdict{"fail", why}
}

// jobsEnd tells whether the jobs before a case have ended: its caller waited
// for them, unless it polls on purpose or belongs to calls made at once.
func (r *replayer) jobsEnd(c *goldenCase) bool {
	atOnce := strings.HasPrefix(c.Case, "concurrent.") || strings.HasPrefix(c.Case, "parallel.")
	if c.pending || beforeEnd[c.Case] || atOnce && !c.polled && r.groupOf(c.index) == r.groupOf(c.index-1) {
		return false
	}
	return true
}

// groupOf names the calls that were made at once: the case without its number.
func (r *replayer) groupOf(index int) string {
	if index < 0 {
		return ""
	}
	return strings.TrimRight(strings.Split(r.cases[index].Case, ".job-")[0], "0123456789")
}
