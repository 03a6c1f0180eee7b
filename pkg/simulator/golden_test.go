// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
	recorded "github.com/csccm/csccm/pkg/testenv/recordings"
)

// The recordings in testdata/golden are replayed in their order on one simulator that starts as a fresh installation.
// testdata/golden-scenario.txt has the calls that prepare it and the calls that were made between the recordings. Some
// commands are not implemented in the simulator; their effects are written directly to its state.
// testdata/golden-clusters, golden-forwards, golden-tags and golden-cks with their scenarios come from other servers.

// scenario replays the recordings.
type scenario struct {
	t       *testing.T
	h       *env
	cases   []*goldenCase
	script  *script
	ids     *bindings
	keys    map[string][2]string // by caller
	oldKeys map[string][2]string // the keys before the last registration, by caller

	cookies, sessionKey string // of the last login
}

// afterJob is longer than a job, which takes one second in these tests.
const afterJob = 1100 * time.Millisecond

func newScenario(t *testing.T, recordings string) *scenario {
	t.Helper()
	s := &scenario{
		t:       t,
		h:       start(t, Options{World: FreshWorld(), Latency: LatencyProfile{Job: time.Second}}),
		cases:   loadGolden(t, recordings),
		script:  readScript(t, recordings+"-scenario.txt"),
		keys:    map[string][2]string{},
		oldKeys: map[string][2]string{},
	}

	s.h.jobTime = afterJob
	s.ids = newBindings(t, s.cases, recordings+"-addresses.json")
	neighbours := recordings + "-neighbours.txt"
	if _, err := os.Stat(neighbours); err == nil {
		for name, lines := range readScript(t, neighbours).before {
			s.script.before[name] = append(s.script.before[name], lines...)
		}
	}

	for name := range s.script.before {
		recorded := name == "" || slices.ContainsFunc(s.cases, func(c *goldenCase) bool { return c.Case == name })
		require.True(t, recorded, "the script names %s, which is not recorded", name)
	}

	s.runAll(s.script.before[""])
	return s
}

func TestGolden(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one call after the other: the race detector, which takes a minute for it, finds nothing")
	}

	for _, recordings := range []string{"golden", "golden-clusters", "golden-forwards", "golden-tags", "golden-cks"} {
		t.Run(recordings, func(t *testing.T) {
			t.Parallel()
			s, equal := newScenario(t, "testdata/"+recordings), 0
			for _, c := range s.cases {
				if why := s.script.skip[c.Case]; why != "" {
					t.Logf("skip: %s: %s", c.Case, why)
				} else if why := s.replay(c); why != "" {
					t.Errorf("%s: %s", c.Case, why)
				} else {
					equal++
				}
			}
			t.Logf("golden: %d of %d recorded cases", equal, len(s.cases))
		})
	}
}

// replay makes the calls that precede a case and its own call. It returns the difference between the answer and the
// recording.
func (s *scenario) replay(c *goldenCase) string {
	s.pass(c)
	s.runAll(s.script.before[c.Case])
	a := s.send(c)
	s.h.sim.faults.Remove(0) // remove the faults of the case
	if caller := registers[c.Case]; caller != "" {
		s.keep(caller, a.body)
	}
	why := s.compare(c, a)
	if why != "" {
		s.ids.adopt(c, a)
	}
	return why
}

// pass advances the clock by the time that the recorded caller waited: until the jobs of the previous calls have
// ended, unless the case is an early poll or one of several calls made at once.
func (s *scenario) pass(c *goldenCase) {
	switch {
	case s.script.midJob[c.Case]:
		s.h.clock.Step(500 * time.Millisecond)
	case !c.pending && !s.script.atOnce[c.Case] && !s.sameMoment(c):
		s.h.clock.Step(afterJob)
	}
	s.h.sim.runDue()
}

// sameMoment reports whether a case is one of several calls made at once, but not the first.
func (s *scenario) sameMoment(c *goldenCase) bool {
	if c.polled ||
		c.index == 0 ||
		!strings.HasPrefix(c.Case, "concurrent.") && !strings.HasPrefix(c.Case, "parallel.") {
		return false
	}
	group := func(name string) string { return strings.TrimRight(strings.Split(name, ".job-")[0], "0123456789") }
	return group(c.Case) == group(s.cases[c.index-1].Case)
}

// compare returns the difference between the answer and the recording, "" if there is none.
func (s *scenario) compare(c *goldenCase, got answer) string {
	blank := strings.NewReplacer(" ", "")
	contentType := got.header.Get("Content-Type")
	switch {
	case got.status != c.HTTPStatus:
		return fmt.Sprintf("status %d instead of %d: %.200s", got.status, c.HTTPStatus, got.raw)
	case c.Case == "auth.root" || c.Case == "auth.wrong-path":
		return "" // the body is HTML; only the status is compared
	case c.ContentType != "" && !strings.EqualFold(blank.Replace(c.ContentType), blank.Replace(contentType)):
		return fmt.Sprintf("content type %q instead of %q", contentType, c.ContentType)
	}

	s.ids.learned, s.ids.taken = map[string]string{}, map[string]bool{}
	if c.HTTPStatus == 200 {
		s.ids.adopt(c, got)
	}

	why := s.ids.diff("", "", c.Response, got.exact())
	if why == "" {
		s.ids.keepLearned()
	}

	return why
}

// exact returns an answer with its numbers as they were sent.
func (a answer) exact() (v any) {
	d := json.NewDecoder(strings.NewReader(a.raw))
	d.UseNumber()
	if !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") || d.Decode(&v) != nil {
		return a.raw
	}
	return v
}

// goldenCase is a recorded exchange.
type goldenCase struct {
	recorded.Recording
	Response any

	index   int
	polled  bool // a poll of the job of an earlier call
	pending bool // the job still ran at that poll
}

func loadGolden(t *testing.T, recordings string) []*goldenCase {
	t.Helper()
	all, err := recorded.Read(recordings)
	require.NoError(t, err)
	out := make([]*goldenCase, 0, len(all))
	for i, r := range all {
		c := &goldenCase{Recording: r, index: i}
		d := json.NewDecoder(bytes.NewReader(r.Response))
		d.UseNumber()
		require.NoError(t, d.Decode(&c.Response), r.Case)
		_, kind, polled := strings.Cut(r.Case, ".job-")
		c.polled, c.pending = polled, kind == "pending"
		out = append(out, c)
	}
	return out
}

var (
	goldenTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000$`)
	// internalID matches the database's ids and times in texts.
	internalID = regexp.MustCompile(`((?i:\bid)=|"id":|"networkId":|"id": |"networkofferingid": |\bin domain |\[|\bID |zone |rule:|PrjAcct-k8s-project-)\d+`)
	instance   = regexp.MustCompile(`\bi-\d+-\d+-VM`)
	vlanURI    = regexp.MustCompile(`vlan://\d+`)
	randomUser = regexp.MustCompile(`for user id \[[0-9a-f-]+\]`)
)

// volatile members differ from call to call: traffic counters, statistics of the machine and the process, times in
// milliseconds, and everything that depends on the choice of a host.
var volatile = store.SetOf("receivedbytes", "sentbytes", "gputotal", "gpuused", "hostname", "hostid", "vlanname",
	"vlan", "expireAfter",
	"cpuallocated", "cpuallocatedvalue", "cpuallocatedpercentage", "cpuallocatedwithoverprovisioning",
	"memoryallocated",
	"memoryallocatedpercentage", "memoryallocatedbytes", "availableprocessors", "sessions", "heapmemoryused",
	"heapmemorytotal",
	"threadsdaemoncount", "threadsrunnablecount", "threadstotalcount", "threadswaitingcount", "systemmemorytotal",
	"systemmemoryfree",
	"systemmemoryvirtualsize", "systemtotalcpucycles", "systemloadaverages", "systemcycleusage", "cpuload",
	"javadistribution",
	"javaversion", "osdistribution", "kernelversion", "agents", "lastagents", "agentcount", "agentscount")

// unordered arrays are sets of named objects; the server returns them in the order of a hash table.
var unordered = store.SetOf("api", "params", "response", "service", "capability", "affinitygroup", "tag", "tags")

// diff returns the first difference between a recorded value and the simulator's, with its path. key is the name of
// the member with the values.
func (b *bindings) diff(path, key string, want, got any) string {
	differs := fmt.Sprintf("%s: %.200s instead of %.200s", path, fmt.Sprint(got), fmt.Sprint(want))
	switch w := want.(type) {
	case nil, bool:
		if want == got {
			return ""
		}

	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return b.diffObject(path, w, g)
		}

	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return differs
		}
		if unordered[key] {
			w, g = byName(w, b.translate), byName(g, strings.Clone)
		}
		for i := range w {
			if why := b.diff(fmt.Sprintf("%s[%d]", path, i), key, w[i], g[i]); why != "" {
				return why
			}
		}
		return ""

	case string:
		if g, ok := got.(string); ok && (volatile[key] || b.sameText(w, g)) {
			return ""
		}

	case json.Number:
		if g, ok := got.(json.Number); ok && (volatile[key] || w == g || sameFloat(w, g)) {
			return ""
		}
	}

	return differs
}

func sameFloat(a, b json.Number) bool {
	x, err1 := a.Float64()
	y, err2 := b.Float64()
	return err1 == nil && err2 == nil && x == y
}

func (b *bindings) diffObject(path string, want, got map[string]any) string {
	keys := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		w, recorded := want[k]
		g, ours := got[k]
		switch {
		case !ours:
			return fmt.Sprintf("%s: member %s is missing (recorded %.200s)", path, k, fmt.Sprint(w))
		case !recorded:
			return fmt.Sprintf("%s: member %s (%.200s) was not recorded", path, k, fmt.Sprint(g))
		}
		if why := b.diff(path+"."+k, k, w, g); why != "" {
			return why
		}
	}
	return ""
}

// byName sorts objects by name, type, key and resource ID.
func byName(list []any, ours func(string) string) []any {
	key := func(v any) string {
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 {
			return ours("~")
		}
		return ours(fmt.Sprint(m["name"], m["type"], m["key"], m["resourceid"]))
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b any) int { return strings.Compare(key(a), key(b)) })
}

func (s *scenario) keysOf(c *goldenCase) (string, string) {
	caller := c.Caller
	if caller == "other" {
		caller = "kubeadmin"
	}
	k, ok := s.keys[caller]
	if c.Case == "auth.old-key-after-reregister" {
		k, ok = s.oldKeys[caller]
	}
	if !ok {
		return "no-such-key", "no-such-secret"
	}
	return k[0], k[1]
}

// send replays the request of a case.
func (s *scenario) send(c *goldenCase) answer {
	if c.Command == "raw" {
		return s.raw(c)
	}

	q := form(c.Command)
	for k, v := range c.Params {
		q.Set(k, s.ids.translate(fmt.Sprint(v)))
	}

	if q.Has("password") { // the recordings have no passwords
		q.Set("password", "password")
		switch c.Case {
		case "createUser.short-password":
			q.Set("password", "")
		case "login.bad-password":
			q.Set("password", "wrong")
		}
	}

	if c.Caller == "session" {
		return s.sendSession(c, q)
	}

	key, secret := s.keysOf(c)
	q.Set("apikey", key)
	s.stamp(c, q)
	switch {
	case c.Case == "auth.bad-signature":
		q.Set("signature", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	case strings.HasPrefix(c.Case, "auth.sigchar-go-"): // Go escapes ~ and * differently
		text := strings.ReplaceAll(wire.StringToSign(toParams(q)), "%7e", "~")
		q.Set("signature", wire.HmacOf(secret, strings.ReplaceAll(text, "*", "%2a")))
	default:
		q.Set("signature", wire.Sign(secret, toParams(q)))
	}

	return s.do(strings.HasSuffix(c.Case, ".post") || strings.HasPrefix(c.Case, "postonly.post"), s.h.url, q, "")
}

// stamp adds a signature version and an expiry time if the case tests them.
func (s *scenario) stamp(c *goldenCase, q url.Values) {
	at := func(ahead time.Duration) string {
		return s.h.clock.Now().Add(ahead).UTC().Format("2006-01-02T15:04:05-0700")
	}
	expires, name := "", c.Case
	switch {
	case name == "auth.empty-apikey":
		q.Set("apikey", "")
	case name == "auth.v4":
		q.Set("signatureversion", "4")
	case name == "auth.v3-expired":
		expires = at(-time.Minute)
	case name == "auth.v3-bad-expires":
		expires = "tomorrow"
	case name == "auth.v3-expires-Z":
		expires = strings.Replace(at(time.Minute), "+0000", "Z", 1)
	case name == "auth.v3-expires-far-future":
		expires = at(10 * 365 * 24 * time.Hour)
	case strings.HasPrefix(name, "auth.v3-"):
		expires = at(time.Minute)
	case strings.HasPrefix(name, "postonly.") && strings.HasSuffix(name, "too-far"):
		expires = at(time.Hour)
	case strings.HasPrefix(name, "postonly.") && !strings.HasSuffix(name, "without-timestamp"):
		expires = at(10 * time.Minute)
	}

	if expires != "" {
		q.Set("signatureversion", "3")
		q.Set("expires", expires)
	}
}

func (s *scenario) raw(c *goldenCase) answer {
	query, target := fmt.Sprint(c.Params["query"]), s.h.url
	if strings.HasPrefix(query, "http") {
		return s.h.get(strings.TrimSuffix(s.h.url, "/api"))
	}
	if c.Case == "auth.wrong-path" {
		target += "x"
	}
	key, _ := s.keysOf(c)
	q, err := url.ParseQuery(strings.ReplaceAll(query, "REDACTED", key))
	require.NoError(s.t, err)
	return s.do(false, target, q, "")
}

func (s *scenario) sendSession(c *goldenCase, q url.Values) answer {
	if s.sessionKey == "" && c.Command != "login" {
		s.do(true, s.h.url, form("login", "username", "admin", "password", "password"), "")
	}
	if q.Has("sessionkey") {
		q.Set("sessionkey", s.sessionKey)
	}
	if c.Command == "login" {
		return s.do(c.Case != "login.by-get", s.h.url, q, "")
	}
	return s.do(false, s.h.url, q, s.cookies)
}

// do sends a request and keeps the session that it starts.
func (s *scenario) do(post bool, target string, q url.Values, cookies string) (a answer) {
	if post {
		a = s.h.send(http.MethodPost, target, q.Encode(), "Cookie", cookies)
	} else {
		a = s.h.send(http.MethodGet, target+"?"+q.Encode(), "", "Cookie", cookies)
	}
	if now := a.cookies(); now != "" {
		s.cookies = now
		_, key, _ := strings.Cut(now, "sessionkey=")
		s.sessionKey, _, _ = strings.Cut(key, ";")
	}
	return a
}

// bindings map recorded ids to those of the simulator's objects, and recorded public addresses to the simulator's
// addresses.
type bindings struct {
	recorded  []string          // every UUID of the recordings
	ours      map[string]string // recorded UUID -> ours
	theirs    map[string]string // ours -> recorded UUID
	addresses map[string]string // recorded public address -> ours
	addressOf map[string]string // recorded UUID of a public address -> that address
	learned   map[string]string // pairs found by the current comparison
	taken     map[string]bool
}

var (
	uuidPattern   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	publicAddress = regexp.MustCompile(`\b(192\.168\.2|172\.16\.15)\.\d+\b`)
	placeholder   = regexp.MustCompile(`\{(@\w+|[0-9a-f-]+)\}`)
	// nicAddress matches the address or the MAC of a NIC. The server chooses them if the call does not.
	nicAddress = regexp.MustCompile(`\b(10\.\d+\.\d+\.\d+|02:01(:[0-9a-f]{2}){4})\b`)
)

func newBindings(t *testing.T, cases []*goldenCase, addresses string) *bindings {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range cases {
		for _, id := range uuidPattern.FindAllString(fmt.Sprint(c.Params, c.Response), -1) {
			seen[id] = true
		}
	}

	var addressOf map[string]string
	raw, err := os.ReadFile(addresses)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &addressOf))
	inverse := map[string]string{}
	for address, id := range addressOf {
		inverse[id] = address
	}

	return &bindings{
		addressOf: inverse,
		recorded:  slices.Sorted(maps.Keys(seen)),
		ours:      map[string]string{},
		theirs:    map[string]string{},
		addresses: map[string]string{},
	}
}

// full returns the recorded UUID that starts with the prefix.
func (b *bindings) full(prefix string) string {
	if prefix[0] == '@' { // a name that the script gives
		return prefix
	}
	i, _ := slices.BinarySearch(b.recorded, prefix)
	if i == len(b.recorded) || !strings.HasPrefix(b.recorded[i], prefix) {
		return "no-recorded-id-" + prefix
	}
	if i+1 < len(b.recorded) && strings.HasPrefix(b.recorded[i+1], prefix) {
		return "ambiguous-" + prefix
	}
	return b.recorded[i]
}

// translate replaces recorded ids and addresses by the simulator's.
func (b *bindings) translate(s string) string {
	s = placeholder.ReplaceAllStringFunc(s, func(p string) string {
		if p[1] == '@' {
			return b.ours[p[1:len(p)-1]]
		}
		return b.full(p[1 : len(p)-1])
	})

	s = uuidPattern.ReplaceAllStringFunc(s, func(id string) string {
		if own := b.ours[id]; own != "" {
			return own
		}
		return id
	})

	own := func(a string) string {
		if own := b.addresses[a]; own != "" {
			return own
		}
		return a
	}

	return nicAddress.ReplaceAllStringFunc(publicAddress.ReplaceAllStringFunc(s, own), own)
}

// bind maps a recorded id to an id of the simulator from now on.
func (b *bindings) bind(recorded, ours string) {
	if b.ours[recorded] == ours {
		return
	}
	if old := b.theirs[ours]; old != "" {
		delete(b.ours, old)
	}
	if old := b.ours[recorded]; old != "" {
		delete(b.theirs, old)
	}
	b.ours[recorded], b.theirs[ours] = ours, recorded
	delete(b.addresses, b.addressOf[recorded]) // the next answer shows the address of the new object
}

// bindResult binds the ids that a call of the script names in its answer.
func (b *bindings) bindResult(t *testing.T, s step, body map[string]any) {
	t.Helper()
	for _, p := range s.binds {
		from, path := subject(body), p[0]
		if rest, ok := strings.CutPrefix(path, "/"); ok {
			from, path = body, rest
		}
		own := text(lookup(from, path))
		require.NotEmpty(t, own, "%s: %v has no %s", s.line, body, p[0])
		recorded := b.full(p[1])
		require.True(t, recorded[0] == '@' || len(recorded) == 36, "%s: %s", s.line, recorded)
		b.bind(recorded, own)
	}
}

// subject returns the object in an answer: the answer itself, its only member, or the first item of its list.
func subject(body map[string]any) map[string]any {
	if _, ok := body["id"].(string); ok {
		return body
	}
	for k, v := range body {
		switch v := v.(type) {
		case map[string]any:
			return v
		case []any:
			if len(v) == 0 || k == "uuidList" {
				continue
			}
			if m, ok := v[0].(map[string]any); ok {
				return m
			}
		}
	}
	return body
}

// lookup returns the member at a path such as user.0.id; an empty path means id.
func lookup(v any, path string) any {
	if path == "" {
		path = "id"
	}
	for _, name := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		}
	}
	return v
}

// adopt binds the object and the job that a case created. It replaces earlier bindings of the recorded ids, because an
// address keeps its id when its owner changes.
func (b *bindings) adopt(c *goldenCase, got answer) {
	want, _ := c.Response.(map[string]any)
	for _, v := range want {
		object, _ := v.(map[string]any)
		if object["jobid"] == nil || c.polled || got.status != 200 {
			return
		}
		for _, k := range []string{"id", "jobid"} {
			if w, h := text(object[k]), got.str(k); w != "" && h != "" && b.ours[w] != h {
				b.bind(w, h)
			}
		}
	}
}

// keepLearned keeps the pairs of a comparison without a difference.
func (b *bindings) keepLearned() {
	for w, g := range b.learned {
		if uuidPattern.MatchString(w) {
			b.bind(w, g)
		}
	}
	for w, g := range b.learned {
		if !uuidPattern.MatchString(w) {
			b.addresses[w] = g
		}
	}
}

// sameText compares a recorded text with the simulator's: ids and addresses by their bindings, times and secrets by
// their formats.
func (b *bindings) sameText(want, got string) bool {
	switch {
	case want == got && !uuidPattern.MatchString(want) && !publicAddress.MatchString(want),
		want == "REDACTED" && got != "", goldenTime.MatchString(want) && goldenTime.MatchString(got):
		return true
	}

	if isWhole(uuidPattern, want) && isWhole(uuidPattern, got) {
		return b.samePair(want, got, b.ours[want], b.theirs[got] != "")
	}

	if isWhole(publicAddress, want) && isWhole(publicAddress, got) {
		return b.samePair(want, got, b.addresses[want], false)
	}

	if isWhole(nicAddress, want) && isWhole(nicAddress, got) {
		return want == got && b.addresses[want] == "" || b.samePair(want, got, b.addresses[want], false)
	}

	normal := func(s string) string {
		s = randomUser.ReplaceAllString(s, "for user id [X]")
		s = instance.ReplaceAllString(s, "i-N-N-VM")
		s = vlanURI.ReplaceAllString(s, "vlan://N")
		return internalID.ReplaceAllString(s, "${1}N")
	}

	return normal(b.translate(want)) == normal(got)
}

func isWhole(p *regexp.Regexp, s string) bool { return s != "" && p.FindString(s) == s }

// samePair reports whether an id or address of the simulator can correspond to a recorded one: they are bound to each
// other, or neither is bound.
func (b *bindings) samePair(want, got, bound string, busy bool) bool {
	if bound == "" {
		bound = b.learned[want]
	}
	switch {
	case bound == got:
		return true
	case bound != "" || busy || b.taken[got]:
		return want == got && bound == ""
	}
	b.learned[want], b.taken[got] = got, true
	return true
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
