// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// TestScripts runs each scenario of testdata/scripts in its own world. "== NAME" begins a scenario. The lines above
// the first scenario of a file name the world ("world FILE [DURATION OF JOBS]") and are the beginning of each of its
// scenarios.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		for _, scenario := range scenarios(t, name)[1:] {
			title, script, _ := strings.Cut(scenario, "\n")
			t.Run(name+": "+title, func(t *testing.T) {
				t.Parallel()
				startScript(t, name, Options{}).play(script)
			})
		}
	}
}

// scenarios returns the head of testdata/scripts/NAME.txt and its scenarios.
func scenarios(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/scripts/" + name + ".txt")
	require.NoError(t, err)
	return strings.Split(string(text), "\n== ")
}

// startScript starts the world of testdata/scripts/NAME.txt.
func startScript(t *testing.T, name string, o Options) *env {
	t.Helper()
	_, head, _ := strings.Cut(scenarios(t, name)[0], "\nworld ")
	world, head, _ := strings.Cut(head, "\n")
	file, job, _ := strings.Cut(world, " ")
	if o.World == nil && file != "example" {
		o.World = readWorld(t, file)
	}
	h := start(t, o)
	if job != "" {
		h.play("jobs " + job)
	}
	return h.play(head)
}

// readWorld reads a world of testdata/scripts.
func readWorld(t *testing.T, file string) *World {
	t.Helper()
	f, err := os.Open("testdata/scripts/" + file)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it was read
	w, err := LoadWorld(f)
	require.NoError(t, err)
	return w
}

// play makes the calls of a script, one in each line:
//
//	USER COMMAND name=value name="a b" => ANSWER > NAME PATH=NAME
//
// USER root calls the integration port. Two blanks and # begin a comment. A line that ends with a backslash continues
// in the next line. play waits for the job of a call unless the line begins with &. A line that begins with + repeats
// the previous call with other parameters; name=- omits a parameter.
// In parameters and answers, {NAME} is what an earlier line has bound with > (an id, or the member at PATH), and
// {TABLE:NAME} is the id of an object of the store. ANSWER is an argument of expect; without it, the call and its job
// must succeed. For lines that are not calls, see direct.
func (h *env) play(script string) *env {
	h.t.Helper()
	var last step
	for line := range strings.Lines(continued.ReplaceAllString(script, " ")) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  # ")
		if line == "" || line[0] == '#' || h.direct(line) {
			continue
		}

		word, rest, _ := strings.Cut(strings.TrimPrefix(line, "& "), " ")
		if call, is := h.calls[word]; is {
			line = line[:len(line)-len(strings.TrimPrefix(line, "& "))] + call + " " + rest
		}

		s := parseStep(h.t, strings.Replace(line, "+ ", last.caller+" "+last.command+" ", 1))
		if line[0] == '+' {
			s.args = append(slices.Clone(last.args), s.args...)
		} else {
			last = s
		}

		values := map[string]string{} // the last value of a parameter counts
		for _, p := range s.args {
			values[p[0]] = p[1]
		}

		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if values[name] != "-" {
				pairs = append(pairs, name, h.resolve(values[name]))
			}
		}

		if s.want == "cut" {
			h.cut(s.caller, s.command, pairs...)
			continue
		}

		target, q := h.admin, form(s.command, pairs...)
		if s.caller != "root" {
			target, q = h.url, h.signed(s.caller, s.command, pairs...)
		}

		a := h.send(http.MethodPost, target, q.Encode())
		h.last, s.want = a, h.resolve(s.want)
		if h.note != nil {
			call, _, _ := strings.Cut(s.line, " => ")
			call, _, _ = strings.Cut(strings.Replace(call, " ", "$ ", 1), " > ")
			h.note("\n"+h.resolve(call)+"\n", a)
		}

		object := h.expect(s, a)
		for _, b := range s.binds {
			value := pick(a, object, b[0])
			require.NotNil(h.t, value, "%s: no %s in %s", line, b[0], a.raw)
			h.vars[b[1]] = fmt.Sprint(value)
		}
	}

	return h
}

// direct executes a line of a script that is not a call:
//
//	set NAME VALUE, upper NAME VALUE   binds a name; upper in upper case
//	let NAME USER COMMAND ...          a name for the beginning of calls
//	wait 20s                           advances the clock
//	jobs 10s                           how long jobs take from now on
//	fault COMMAND:KIND                 arms a fault (ParseFault)
//	take-addresses, give-addresses     reserves all free public addresses, and frees the reserved ones
//	certificate                        binds cert and key to a new certificate
//	tenant DOMAIN ACCOUNT a=b          an account with a user that has keys; binds DOMAIN, ACCOUNT and ACCOUNT_user
//	login USER PASSWORD DOMAIN => 200  tries to begin a session
func (h *env) direct(line string) bool {
	h.t.Helper()
	words := strings.SplitN(line, " ", 3)
	switch words[0] {
	case "set":
		h.vars[words[1]] = h.resolve(words[2])
	case "upper":
		h.vars[words[1]] = strings.ToUpper(h.resolve(words[2]))
	case "let":
		h.calls[words[1]] = words[2]
	case "wait", "jobs":
		d, err := time.ParseDuration(words[1])
		require.NoError(h.t, err)
		if words[0] == "wait" {
			h.clock.Step(d)
		} else {
			h.sim.server.Latency.Job = d
		}

	case "fault":
		f, err := ParseFault(strings.TrimPrefix(line, "fault "))
		require.NoError(h.t, err)
		h.sim.Inject(f)

	case "take-addresses":
		h.reserve(store.IPFree, store.IPReserved)
	case "give-addresses":
		h.reserve(store.IPReserved, store.IPFree)
	case "certificate":
		key, now := newRSA(h.t), h.clock.Now()
		h.vars["cert"] = newCert(h.t, key, now.Add(-time.Hour), now.Add(time.Hour))
		h.vars["key"] = pemBlock("PRIVATE KEY", pkcs8(h.t, key))

	case "tenant":
		words = fields(line)
		var pairs []string
		for _, p := range words[3:] {
			name, value, _ := strings.Cut(p, "=")
			pairs = append(pairs, name, value)
		}
		h.vars[words[1]], h.vars[words[2]], h.vars[words[2]+"_user"] = h.tenant(words[1], words[2], pairs...)

	case "login":
		words = fields(line)
		a, _ := h.login(words[1], words[2], words[3])
		require.Equal(h.t, words[5], strconv.Itoa(a.status), line)

	default:
		return false
	}

	return true
}

// reserve changes the state of all public addresses that are in a given state. No implemented command does so.
func (h *env) reserve(from, to string) {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	for _, ip := range h.sim.st.IPs.Rows {
		if ip.State == from {
			ip.State = to
		}
	}
}

// set binds names for later scripts: name, value, name, value ...
func (h *env) set(pairs ...string) *env {
	for i := 0; i < len(pairs); i += 2 {
		h.vars[pairs[i]] = pairs[i+1]
	}
	return h
}

var continued = regexp.MustCompile(`\s*\\\n\s*`)

var variable = regexp.MustCompile(`\{([A-Za-z]\w*)(?::([^{}]+))?\}`)

// resolve replaces {NAME} and {TABLE:NAME}.
func (h *env) resolve(text string) string {
	return variable.ReplaceAllStringFunc(text, func(place string) string {
		m := variable.FindStringSubmatch(place)
		if m[2] == "" {
			value, ok := h.vars[m[1]]
			require.True(h.t, ok, "no line binds %s: %s", place, text)
			return value
		}
		return h.idOf(m[1], m[2])
	})
}

// idOf returns the id of the object with a name, or a public IP address, in a table of the store.
func (h *env) idOf(table, name string) (found string) {
	h.t.Helper()
	eachTable(h.sim.st, func(of string, rows reflect.Value) {
		if !strings.EqualFold(of, table) {
			return
		}
		for i := range rows.Len() {
			entity := rows.Index(i).Interface().(interface{ Ent() *store.Entity }).Ent()
			for _, field := range []string{"Name", "Username", "Addr"} {
				f := rows.Index(i).Elem().FieldByName(field)
				if f.IsValid() && fmt.Sprint(f) == name && found == "" && !entity.Removed {
					found = entity.UUID
				}
			}
		}
	})
	require.NotEmpty(h.t, found, "no %s in %s", name, table)
	return found
}

// expect checks the answer of a call, and of its job unless that is not waited for. What a step wants is one of
//
//	(nothing), ok      success
//	431                this HTTP status
//	431/4350 TEXT      errorcode, cserrorcode and a part of the text
//	job 530 TEXT       the job fails with this code and text
//	count 3            a list of three objects, on all pages
//	cut                the connection breaks without an answer
//	a=b c.0.d~e f=- g#=2   members of the answer, or of its one or first object: equal, contains, absent, number of
//	                   elements; a path from the whole answer begins with /. They may follow ok and "count 3".
//
// It returns the object that the answer, or the job's result, is about.
func (h *env) expect(s step, a answer) map[string]any {
	h.t.Helper()
	body, kind, rest := a.body, "", s.want
	if first, more, _ := strings.Cut(s.want, " "); wantKind.MatchString(first) {
		kind, rest = first, more
	}

	var result map[string]any
	if a.str("jobid") != "" && a.status == 200 && !s.async && s.command != "queryAsyncJobResult" {
		h.clock.Step(h.jobTime)
		job := h.ok(h.root("queryAsyncJobResult", "jobid", a.str("jobid")))
		if h.note != nil {
			h.note("", job)
		}
		result, _ = job.body["jobresult"].(map[string]any)
		if status := fmt.Sprint(job.body["jobstatus"]); (status == fmt.Sprint(store.JobDone)) == (kind == "job") {
			h.t.Errorf("%s: the job has status %s: %v", s.line, status, result)
		} else if kind == "job" {
			code, text, _ := strings.Cut(rest, " ")
			if fmt.Sprint(job.body["jobresultcode"]) != code ||
				!strings.Contains(fmt.Sprint(result["errortext"]), text) {
				h.t.Errorf("%s: %v", s.line, job.raw)
			}
			return result
		}
		body = result
	}

	switch {
	case kind == "" || kind == "ok" || kind == "count":
		if a.status != 200 {
			h.t.Errorf("%s: %.400s", s.line, a.raw)
		}
	case strings.Contains(kind, "/"):
		if got := fmt.Sprintf("%v/%v", a.body["errorcode"], a.body["cserrorcode"]); got != kind ||
			!strings.Contains(a.str("errortext"), rest) {
			h.t.Errorf("%s: %.400s", s.line, a.raw)
		}
		return nil
	case kind == "job":
		h.t.Errorf("%s: no job: %.400s", s.line, a.raw)
		return nil
	case fmt.Sprint(a.status) != kind:
		h.t.Errorf("%s: status %d: %.400s", s.line, a.status, a.raw)
	}

	if kind == "count" {
		var number string
		number, rest, _ = strings.Cut(rest, " ")
		if got := strconv.Itoa(count(body)); got != number {
			h.t.Errorf("%s: %s objects: %.400s", s.line, got, a.raw)
		}
	}

	object := subject(body)
	for _, member := range fields(rest) {
		h.member(s.line, answer{body: body, raw: a.raw}, object, member)
	}

	return object
}

var (
	wantKind   = regexp.MustCompile(`^(ok|count|job|\d{3}|\d{3}/\S+)$`)
	wantMember = regexp.MustCompile(`^([^=~#]+)(=|~|#=)(.*)$`)
)

// member checks one member of an answer.
func (h *env) member(line string, a answer, object map[string]any, text string) {
	h.t.Helper()
	m := wantMember.FindStringSubmatch(text)
	require.NotNil(h.t, m, "%s: %s is neither a code nor path=value", line, text)
	got := pick(a, object, m[1])
	shown := fmt.Sprint(got)
	if f, ok := got.(float64); ok {
		shown = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if got == nil {
		shown = "-"
	}
	switch list, _ := got.([]any); {
	case m[2] == "=" && shown == m[3], m[2] == "~" && got != nil && strings.Contains(shown, m[3]),
		m[2] == "#=" && strconv.Itoa(len(list)) == m[3]:
	default:
		h.t.Errorf("%s: %s is %s in %.1500s", line, m[1], shown, fmt.Sprint(object))
	}
}

// pick returns the member at a path of the object, or of the whole answer if the path begins with /.
func pick(a answer, object map[string]any, path string) any {
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		return lookup(a.body, rest)
	}
	return lookup(object, path)
}

// count returns the count of a list. For an answer without count it returns the length of the longest list.
func count(body map[string]any) int {
	if n, ok := body["count"].(float64); ok {
		return int(n)
	}
	n := 0
	for _, v := range body {
		list, _ := v.([]any)
		n = max(n, len(list))
	}
	return n
}
