// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
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
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// script is what was done apart from the recorded calls (testdata/golden-scenario.txt):
//
//	start                      what follows sets the scene
//	before CASE                what follows happened before that case, which is recorded
//	  CALLER command a=b c=d   a call; its job is waited for and must succeed. CALLER is root (the
//	                           integration port) or a caller of the recordings. {PREFIX} stands for the
//	                           object whose recorded id begins so, "..." holds a value with spaces.
//	                           & before CALLER: the job is not waited for; !: the call or its job fails
//	      > PREFIX             at the end of a call: its result is the object with that recorded id;
//	      > PATH=PREFIX        or the member of the result at that path (user.0.id), of the whole answer
//	                         if it begins with / (/publicipaddress.1.id)
//	  keys CALLER ID           registers keys for the user through the integration port
//	  fault COMMAND:KIND       arms a fault for the case (ParseFault)
//	  wait 20s                 time passes
//	  restart                  the management server is killed and comes back
//	  upload-certificate CALLER > PREFIX
//	  server > PREFIX                 the id of the management server itself
//	  take-addresses, give-addresses   reserves all free public addresses, and gives them back
//	  by-hand TABLE ID CHANGE=VALUE   what a command did that the simulator does not have
//	  ? CALLER command a=b => ANSWER   a call like recorded ones (testdata/golden-neighbours.txt) with what expect wants
//	at-once CASE               it was called before the job of the call before it had ended
//	mid-job CASE               it was called some time after that job had begun
//	skip CASE WHY              it cannot be replayed
type script struct {
	start          []step
	before         map[string][]step
	atOnce, midJob map[string]bool
	skip           map[string]string
}

// step is a line of the script.
type step struct {
	line    string
	caller  string
	command string // a command, or a directive when there is no caller
	args    [][2]string
	binds   [][2]string // path in the result, prefix of the recorded id
	async   bool        // the job is not waited for
	fails   bool
	want    string // of a neighbour: what it must answer
}

func readScript(t *testing.T, path string) *script {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	out := &script{before: map[string][]step{}, atOnce: map[string]bool{}, midJob: map[string]bool{}, skip: map[string]string{}}
	current := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimSpace(line)
		word, rest, _ := strings.Cut(text, " ")
		switch {
		case text == "" || text[0] == '#':
		case line[0] == ' ' && current == "":
			out.start = append(out.start, parseStep(t, text))
		case line[0] == ' ':
			out.before[current] = append(out.before[current], parseStep(t, text))
		case word == "start":
			current = ""
		case word == "before":
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

func parseStep(t *testing.T, text string) step {
	t.Helper()
	s := step{line: text}
	for strings.HasPrefix(text, "&") || strings.HasPrefix(text, "!") {
		s.async, s.fails = s.async || text[0] == '&', s.fails || text[0] == '!'
		text = text[1:]
	}
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
	switch words[0] {
	case "keys", "fault", "wait", "restart", "take-addresses", "give-addresses", "upload-certificate", "server", "by-hand":
		s.command = words[0]
		for _, w := range words[1:] {
			s.args = append(s.args, [2]string{w})
		}
		return s
	}
	require.GreaterOrEqual(t, len(words), 2, text)
	s.caller, s.command = words[0], words[1]
	for _, w := range words[2:] {
		k, v, ok := strings.Cut(w, "=")
		require.True(t, ok, "golden-scenario.txt: %s in %s", w, text)
		s.args = append(s.args, [2]string{k, v})
	}
	return s
}

// fields splits at blanks outside of quotes, and drops the quotes.
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

// run does one step, and says what went wrong.
func (s *scenario) run(step step) (why string) {
	s.t.Helper()
	switch step.command {
	case "keys":
		a := s.h.ok(s.h.root("registerUserKeys", "id", s.ids.translate(step.args[1][0])))
		s.keep(step.args[0][0], a.body)
		return ""
	case "fault":
		f, err := ParseFault(step.line[len("fault "):])
		require.NoError(s.t, err)
		s.undo = append(s.undo, s.h.sim.Inject(f))
		return ""
	case "wait":
		d, err := time.ParseDuration(step.args[0][0])
		require.NoError(s.t, err)
		s.h.clock.Step(d)
		s.h.sim.runDue()
		return ""
	case "restart":
		s.h.sim.Restart(0)
		return ""
	case "take-addresses", "give-addresses":
		from, to := store.IPReserved, store.IPFree
		if step.command == "take-addresses" {
			from, to = to, from
		}
		s.h.reserve(from, to)
		return ""
	case "upload-certificate":
		s.uploadCertificate(step)
		return ""
	case "by-hand":
		change, value, _ := strings.Cut(step.args[2][0], "=")
		made := byHand(s.h.sim.st, step.args[0][0], s.ids.translate(step.args[1][0]), change, value, s.h.clock.Now())
		if made != "" {
			s.ids.bind(s.ids.full(step.binds[0][1]), made)
		}
		return ""
	case "server":
		s.ids.bind(s.ids.full(step.binds[0][1]), s.h.sim.st.MsID)
		return ""
	}
	var pairs []string
	for _, p := range step.args {
		pairs = append(pairs, p[0], s.ids.translate(p[1]))
	}
	a := s.callAs(step.caller, step.command, pairs)
	if step.want != "" {
		step.want = s.ids.translate(step.want)
		s.h.expect(step, a)
		return ""
	}
	switch {
	case a.status == 200:
	case step.fails:
		return ""
	default:
		return step.line + ": " + a.raw
	}
	s.ids.bindResult(s.t, step, a.body)
	if job := a.str("jobid"); job != "" && !step.async {
		s.h.clock.Step(afterJob)
		j := s.h.ok(s.h.root("queryAsyncJobResult", "jobid", job))
		want := store.JobDone
		if step.fails {
			want = store.JobFailed
		}
		if fmt.Sprint(j.body["jobstatus"]) != fmt.Sprint(want) {
			return step.line + ": " + j.raw
		}
	}
	return ""
}

// byHand does to an object what a command of the recorded server did that the simulator does not have: it sets a text, or calls
// one of the named changes. It returns the id of a new object.
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

// callAs sends a call of the script.
func (s *scenario) callAs(caller, command string, pairs []string) answer {
	s.t.Helper()
	if caller == "root" {
		return s.h.root(command, pairs...)
	}
	k, ok := s.keys[caller]
	require.True(s.t, ok, "no keys of %s", caller)
	q := query(command, k[0], pairs)
	q.Set("signature", wire.Sign(k[1], toParams(q)))
	return s.h.get(s.h.url + "?" + q.Encode())
}

// keep remembers the keys in an answer of registerUserKeys.
func (s *scenario) keep(caller string, body map[string]any) {
	k, _ := body["userkeys"].(map[string]any)
	if old, ok := s.keys[caller]; ok {
		s.oldKeys[caller] = old
	}
	s.keys[caller] = [2]string{text(k["apikey"]), text(k["secretkey"])}
}

// rememberKeys takes the keys that a recorded call registered.
func (s *scenario) rememberKeys(c *goldenCase, got reply) {
	caller := map[string]string{"registerUserKeys.admin-for-user": "customrole", "registerUserKeys.self-again": "seconduser"}[c.Case]
	body, ok := inner(got.body)
	if caller == "" || !ok || got.status != 200 {
		return
	}
	raw, err := json.Marshal(body)
	require.NoError(s.t, err)
	var plain map[string]any
	require.NoError(s.t, json.Unmarshal(raw, &plain))
	s.keep(caller, plain)
}

// uploadCertificate makes a certificate and uploads it.
func (s *scenario) uploadCertificate(step step) {
	key, now := newRSA(s.t), s.h.clock.Now()
	cert := newPair(s.t, key, nil, now.Add(-time.Hour), now.Add(time.Hour))
	k := s.keys[step.args[0][0]]
	q := query("uploadSslCert", k[0], []string{"name", "web", "certificate", cert.pem, "privatekey", pemBlock("PRIVATE KEY", pkcs8(s.t, key))})
	q.Set("signature", wire.Sign(k[1], toParams(q)))
	resp, err := http.PostForm(s.h.url, q)
	require.NoError(s.t, err)
	s.ids.bindResult(s.t, step, s.h.ok(decode(s.t, resp)).body)
}

const transcriptPath = "../../docs/transcripts/simulator-scenario.txt"

// TestTranscript makes the calls of testdata/transcript.txt on a fresh
// installation and compares what was said with the transcript in docs, or
// writes that with -update.
func TestTranscript(t *testing.T) {
	t.Parallel()
	s := &scenario{
		t: t, h: start(t, Options{World: FreshWorld(), Latency: LatencyProfile{Job: time.Second}}),
		ids: newBindings(t, nil, "testdata/golden-addresses.json"), keys: map[string][2]string{}, oldKeys: map[string][2]string{},
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
		s.h.clock.Step(afterJob)
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
