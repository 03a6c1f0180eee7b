// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

// script describes what was done in addition to the recorded calls (testdata/golden-scenario.txt):
//
//	start                      the lines below prepare the server
//	before CASE                the lines below happened before that recorded case
//	  CALLER command a=b c=d   a call; its job is waited for and must succeed. CALLER is root (the
//	                           integration port) or a caller of the recordings. {PREFIX} stands for the
//	                           object whose recorded id begins with PREFIX, "..." holds a value with spaces.
//	                           & before CALLER: the job is not waited for
//	      > PREFIX             at the end of a call: its result is the object with that recorded id;
//	      > PATH=PREFIX        or the member of the result at that path (user.0.id), of the whole answer
//	                         if it begins with / (/publicipaddress.1.id)
//	  keys CALLER ID           registers keys for the user through the integration port
//	  fault, wait, take-addresses, give-addresses   as in other scripts (direct); a fault is that of the case
//	  restart                  the management server is killed and comes back
//	  upload-certificate CALLER > PREFIX
//	  server > PREFIX                 the id of the management server itself
//	  by-hand TABLE ID CHANGE=VALUE   the effect of a command that the simulator does not have
//	  ? CALLER command a=b => ANSWER   a call like a recorded one (testdata/golden-neighbours.txt); ANSWER as in expect
//	at-once CASE               the case was called before the job of the previous call had ended
//	mid-job CASE               the case was called some time after that job had begun
//	skip CASE WHY              the case cannot be replayed
type script struct {
	before         map[string][]string // lines by case; those of "" prepare the server
	atOnce, midJob map[string]bool
	skip           map[string]string
}

func readScript(t *testing.T, path string) *script {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	out := &script{map[string][]string{}, map[string]bool{}, map[string]bool{}, map[string]string{}}
	current := ""
	for line := range strings.Lines(string(raw)) {
		text := strings.TrimSpace(line)
		word, rest, _ := strings.Cut(text, " ")
		switch {
		case text == "" || text[0] == '#':
		case line[0] == ' ':
			out.before[current] = append(out.before[current], text)
		case word == "start" || word == "before":
			current = rest
		case word == "at-once":
			out.atOnce[rest] = true
		case word == "mid-job":
			out.midJob[rest], out.atOnce[rest] = true, true
		case word == "skip":
			name, why, _ := strings.Cut(rest, " ")
			out.skip[name] = why
		default:
			require.Fail(t, "cannot read this line", line)
		}
	}

	return out
}

// step is a call of a script.
type step struct {
	line            string
	caller, command string
	args            [][2]string
	binds           [][2]string // path in the result, prefix of the recorded id
	async           bool        // the job is not waited for
	want            string      // the expected answer
}

func parseStep(t *testing.T, text string) step {
	t.Helper()
	s := step{line: text}
	text, s.async = strings.CutPrefix(text, "&")
	call, want, _ := strings.Cut(strings.TrimPrefix(text, "? "), " => ")
	call, binds, _ := strings.Cut(call, " > ")
	if i := strings.LastIndex(want, " > "); i >= 0 {
		want, binds = want[:i], want[i+3:]
	}

	s.want = want
	for _, b := range strings.Fields(binds) {
		path, prefix, named := strings.Cut(b, "=")
		if !named {
			path, prefix = "", b
		}
		s.binds = append(s.binds, [2]string{path, prefix})
	}

	words := fields(call)
	require.GreaterOrEqual(t, len(words), 2, text)
	s.caller, s.command = words[0], words[1]
	for _, w := range words[2:] {
		k, v, ok := strings.Cut(w, "=")
		require.True(t, ok, "%s in %s", w, text)
		s.args = append(s.args, [2]string{k, v})
	}

	return s
}

// fields splits at blanks outside of quotes and removes the quotes.
func fields(s string) []string {
	var out []string
	var word strings.Builder
	quoted, some := false, false
	for _, r := range s + " " {
		switch {
		case r == '"':
			quoted, some = !quoted, true
		case r == ' ' && !quoted:
			if some {
				out = append(out, word.String())
			}
			word.Reset()
			some = false
		default:
			some = true
			word.WriteRune(r)
		}
	}

	return out
}

func (s *scenario) runAll(lines []string) {
	s.t.Helper()
	for _, line := range lines {
		switch words := fields(line); words[0] {
		case "keys":
			s.keep(words[1], s.h.ok(s.h.root("registerUserKeys", "id", s.ids.translate(words[2]))).body)
		case "restart":
			s.h.sim.Restart(0)
		case "upload-certificate":
			s.h.direct("certificate")
			line = words[1] + " uploadSslCert name=web certificate={cert} privatekey={key} > " + words[3]
			s.call(parseStep(s.t, line))

		case "by-hand":
			change, value, _ := strings.Cut(words[3], "=")
			made := byHand(s.h.sim.st, words[1], s.ids.translate(words[2]), change, value, s.h.clock.Now())
			if made != "" {
				s.ids.bind(s.ids.full(words[5]), made)
			}

		case "server":
			s.ids.bind(s.ids.full(words[2]), s.h.sim.st.MsID)
		default:
			if !s.h.direct(line) {
				s.call(parseStep(s.t, line))
			}
		}
	}
}

// call makes a call of the script.
func (s *scenario) call(step step) {
	s.t.Helper()
	q := form(step.command)
	for _, p := range step.args {
		value := strings.NewReplacer("{cert}", s.h.vars["cert"], "{key}", s.h.vars["key"]).Replace(p[1])
		q.Set(p[0], s.ids.translate(value))
	}
	target := s.h.admin
	if step.caller != "root" {
		k, ok := s.keys[step.caller]
		require.True(s.t, ok, "no keys of %s", step.caller)
		target, q = s.h.url, sign(q, k[0], k[1])
	}
	a := s.h.send(http.MethodPost, target, q.Encode())
	step.want = s.ids.translate(step.want)
	s.h.expect(step, a)
	s.ids.bindResult(s.t, step, a.body)
}

// byHand applies the effect of a command that the simulator does not implement: it sets a field or makes one of the
// named changes. It returns the id of a new object.
func byHand(st *store.State, table, id, change, value string, now time.Time) (made string) {
	switch change {
	case "restart":
		v := st.VPCs.ByUUID[id]
		v.Started = false
		st.StartVPC(v, now)

	case "stop":
		for _, v := range st.VMs.Rows {
			if v.Owner == st.Projects.ByUUID[id].Account {
				v.Stopped(now)
			}
		}

	case "add-secondary":
		return st.AddSecondary(st.NICs.ByUUID[id], value).UUID
	case "drop":
		st.Secondary.ByUUID[id].NIC.Secondary = nil
	case "unbind":
		st.LBRules.ByUUID[id].Cert = nil
	case "CIDRs":
		st.ACLItems.ByUUID[id].CIDRs = []string{value}
	default:
		rows := reflect.ValueOf(st).Elem().FieldByName(table).Elem().FieldByName("ByUUID")
		rows.MapIndex(reflect.ValueOf(id)).Elem().FieldByName(change).SetString(value)
	}

	return ""
}

// keep stores the keys in an answer of registerUserKeys.
func (s *scenario) keep(caller string, body map[string]any) {
	k, _ := body["userkeys"].(map[string]any)
	if old, ok := s.keys[caller]; ok {
		s.oldKeys[caller] = old
	}
	s.keys[caller] = [2]string{text(k["apikey"]), text(k["secretkey"])}
}

// registers maps recorded cases that register keys to the callers that use these keys.
var registers = map[string]string{
	"registerUserKeys.admin-for-user": "customrole",
	"registerUserKeys.self-again":     "seconduser",
}

var update = flag.Bool("update", false, "write the transcript")

// changing matches what differs between runs of a transcript, with the names that replace it.
var changing = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{uuidPattern, "id-%d"},
	{regexp.MustCompile(`\b02:01(:[0-9a-f]{2}){4}\b`), "mac-%d"},
	{regexp.MustCompile(`[A-Za-z0-9_-]{86}`), "key-%d"},
	{regexp.MustCompile(`\bvlan://\d+`), "vlan-%d"},
}

var (
	capabilities = regexp.MustCompile(`,"capability":\[.*?\](\},\{"|\}\],)`) // the long lists of services' capabilities
	password     = regexp.MustCompile(`password=\S+`)
)

// TestTranscript makes the calls of testdata/transcript.txt on a fresh installation and compares the requests and
// answers with the transcript in docs.
func TestTranscript(t *testing.T) {
	t.Parallel()
	calls, err := os.ReadFile("testdata/transcript.txt")
	require.NoError(t, err)
	said := bytes.NewBufferString("An account with its network, VMs, address and rules, made by API calls alone on a " +
		"fresh cloudstack-sim, and deleted again.\n" +
		"\"root\" calls the integration port, \"kube\" signs with the keys that it was given. Answers of jobs follow " +
		"those of the calls.\n" +
		"Ids, keys and MACs are numbered; capabilities of services are left out.\n")

	h := start(t, Options{World: FreshWorld(), Latency: LatencyProfile{Job: time.Second}})
	h.note = func(line string, a answer) {
		said.WriteString(line)
		fmt.Fprintf(said, "HTTP %d\n", a.status)
		require.NoError(t, json.Indent(said, []byte(capabilities.ReplaceAllString(a.raw, "$1")), "", "  "))
		said.WriteByte('\n')
	}

	h.play(string(calls))
	text, names := password.ReplaceAllString(said.String(), "password=***"), map[string]string{}
	for _, c := range changing {
		text = c.pattern.ReplaceAllStringFunc(text, func(v string) string {
			if names[v] == "" {
				names[v] = fmt.Sprintf(c.name, len(names)+1)
			}
			return names[v]
		})
	}

	golden.File(t, "../../docs/transcripts/simulator-scenario.txt", text, *update,
		"go test ./pkg/simulator -run TestTranscript -update")
}
