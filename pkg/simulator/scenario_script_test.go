// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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
//	  take-addresses, give-addresses   reserves all free public addresses, and gives them back
//	  ? CALLER command a=b => ANSWER   a call like recorded ones (testdata/golden-neighbours.txt). ANSWER is
//	                         "431/4350 TEXT" or "job 530 TEXT" (code, cserrorcode, part of the text), "ok", or
//	                         "count 3", the count of a list
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
	text, s.want, _ = strings.Cut(strings.TrimPrefix(text, "? "), " => ")
	call, binds, _ := strings.Cut(text, " > ")
	for _, b := range strings.Fields(binds) {
		path, prefix, named := strings.Cut(b, "=")
		if !named {
			path, prefix = "", b
		}
		s.binds = append(s.binds, [2]string{path, prefix})
	}
	words := fields(call)
	switch words[0] {
	case "keys", "fault", "wait", "restart", "take-addresses", "give-addresses", "upload-certificate":
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
		s.addresses(step.command == "take-addresses")
		return ""
	case "upload-certificate":
		s.uploadCertificate(step)
		return ""
	}
	var pairs []string
	for _, p := range step.args {
		pairs = append(pairs, p[0], s.ids.translate(p[1]))
	}
	a := s.callAs(step.caller, step.command, pairs)
	if step.want != "" {
		s.neighbour(step, a)
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
		s.h.clock.Step(1100 * time.Millisecond)
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

// neighbour checks the answer of a call that is like recorded ones.
func (s *scenario) neighbour(step step, a answer) {
	s.t.Helper()
	kind, rest, _ := strings.Cut(step.want, " ")
	rest = s.ids.translate(rest)
	var result map[string]any
	if job := a.str("jobid"); job != "" {
		s.h.clock.Step(1100 * time.Millisecond)
		result = s.h.ok(s.h.root("queryAsyncJobResult", "jobid", job)).body
	}
	switch kind {
	case "ok":
		if a.status != 200 || result != nil && fmt.Sprint(result["jobstatus"]) != fmt.Sprint(store.JobDone) {
			s.t.Errorf("%s: %s %v", step.line, a.raw, result["jobresult"])
		}
	case "count":
		if got := fmt.Sprint(a.body["count"]); a.status != 200 || got != rest && (rest != "0" || a.body["count"] != nil) {
			s.t.Errorf("%s: count %s: %.300s", step.line, got, a.raw)
		}
	case "job":
		code, text, _ := strings.Cut(rest, " ")
		failure, _ := result["jobresult"].(map[string]any)
		if a.status != 200 || fmt.Sprint(failure["errorcode"]) != code || !strings.Contains(fmt.Sprint(failure["errortext"]), text) {
			s.t.Errorf("%s: %s %v", step.line, a.raw, result["jobresult"])
		}
	default:
		got := fmt.Sprintf("%v/%v", a.body["errorcode"], a.body["cserrorcode"])
		if got != kind || !strings.Contains(a.str("errortext"), rest) {
			s.t.Errorf("%s: %.400s", step.line, a.raw)
		}
	}
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

// addresses reserves all free addresses of the zone, or releases them again.
func (s *scenario) addresses(take bool) {
	state, command := "Reserved", "releaseIpAddress"
	if take {
		state, command = "Free", "reserveIpAddress"
	}
	list := s.h.ok(s.h.root("listPublicIpAddresses", "listall", "true", "allocatedonly", "false", "state", state)).items("publicipaddress")
	for _, ip := range list {
		s.h.ok(s.h.root(command, "id", id(ip)))
	}
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
