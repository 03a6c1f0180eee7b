// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

const transcriptPath = "../../docs/transcripts/simulator-scenario.txt"

// TestTranscript makes the calls of testdata/transcript.txt on a fresh
// installation and compares what was said with the transcript in docs, or
// writes that with -update.
func TestTranscript(t *testing.T) {
	t.Parallel()
	s := &scenario{
		t: t, h: start(t, Options{World: FreshWorld(), Latency: LatencyProfile{Job: time.Second}}),
		ids: newBindings(t, nil), keys: map[string][2]string{}, oldKeys: map[string][2]string{},
	}
	lines, err := os.ReadFile("testdata/transcript.txt")
	require.NoError(t, err)
	w := &transcript{}
	w.b.WriteString("An account with its network, VMs, address and rules, made by API calls alone on a fresh cloudstack-sim, and deleted again.\n" +
		"\"root\" calls the integration port, \"kube\" signs with the keys that it was given. Answers of jobs follow those of the calls.\n" +
		"Ids, keys and MACs are numbered; capabilities of services are left out.\n")
	for line := range strings.Lines(string(lines)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			w.step(s, parseStep(t, line))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(transcriptPath, w.b.Bytes(), 0o644))
		return
	}
	want, err := os.ReadFile(transcriptPath)
	require.NoError(t, err)
	require.Equal(t, string(want), w.b.String(), "go test ./pkg/simulator -run TestTranscript -update writes it")
}

// transcript collects calls and answers with all that changes from run to run numbered.
type transcript struct {
	b     bytes.Buffer
	names map[string]string
}

var changing = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{uuidPattern, "id-%d"},
	{regexp.MustCompile(`\b02:01(:[0-9a-f]{2}){4}\b`), "mac-%d"},
	{regexp.MustCompile(`[A-Za-z0-9_-]{86}`), "key-%d"},
	{regexp.MustCompile(`\bvlan://\d+`), "vlan-%d"},
}

func (w *transcript) numbered(s string) string {
	if w.names == nil {
		w.names = map[string]string{}
	}
	for _, c := range changing {
		s = c.pattern.ReplaceAllStringFunc(s, func(v string) string {
			if w.names[v] == "" {
				w.names[v] = fmt.Sprintf(c.name, len(w.names)+1)
			}
			return w.names[v]
		})
	}
	return s
}

func (w *transcript) step(s *scenario, step step) {
	s.t.Helper()
	caller, command, pairs := step.caller, step.command, []string(nil)
	if command == "keys" {
		caller, command, pairs = "root", "registerUserKeys", []string{"id", s.ids.translate(step.args[1][0])}
	}
	for _, p := range step.args {
		if p[1] != "" {
			pairs = append(pairs, p[0], s.ids.translate(p[1]))
		}
	}
	w.b.WriteString("\n" + caller + "$ " + command)
	for i := 0; i < len(pairs); i += 2 {
		value := w.numbered(pairs[i+1])
		if pairs[i] == "password" {
			value = "***"
		}
		fmt.Fprintf(&w.b, " %s=%q", pairs[i], value)
	}
	w.b.WriteByte('\n')
	a := s.callAs(caller, command, pairs)
	w.answer(s, a)
	require.Equal(s.t, step.fails, a.status != 200, a.raw)
	if step.command == "keys" {
		s.keep(step.args[0][0], a.body)
	}
	s.ids.bindResult(s.t, step, a.body)
	if job := a.str("jobid"); job != "" {
		s.h.clock.Step(1100 * time.Millisecond)
		j := s.h.ok(s.callAs(caller, "queryAsyncJobResult", []string{"jobid", job}))
		require.EqualValues(s.t, store.JobDone, j.body["jobstatus"], j.raw)
		w.answer(s, j)
	}
}

// answer writes an answer, indented.
func (w *transcript) answer(s *scenario, a answer) {
	var v any
	d := json.NewDecoder(strings.NewReader(a.raw))
	d.UseNumber()
	require.NoError(s.t, d.Decode(&v), a.raw)
	shorten(v)
	text, err := json.MarshalIndent(v, "", "  ")
	require.NoError(s.t, err)
	fmt.Fprintf(&w.b, "HTTP %d\n%s\n", a.status, w.numbered(string(text)))
}

// shorten drops the long lists of what services can do.
func shorten(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "capability")
		for _, x := range v {
			shorten(x)
		}
	case []any:
		for _, x := range v {
			shorten(x)
		}
	}
}
