// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
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

// The recordings in testdata/golden are replayed in the order in which they
// were made, on one simulator that begins as a fresh installation. Only what
// commands did that it does not have is put into its state from behind: testdata/golden-scenario.txt holds the calls
// that set the scene and those that must have been made between the recordings.
// testdata/golden-clusters, testdata/golden-forwards and testdata/golden-tags with
// their scenarios are the same of other servers.

// scenario replays the recordings.
type scenario struct {
	t       *testing.T
	h       *env
	cases   []*goldenCase
	byName  map[string]*goldenCase
	script  *script
	ids     *bindings
	keys    map[string][2]string // of callers
	oldKeys map[string][2]string // those before the last registration
	session sessionState
	undo    []func() // disarm the faults of a case
}

// afterJob is longer than a job, which takes a second here.
const afterJob = 1100 * time.Millisecond

func newScenario(t *testing.T, recordings string) *scenario {
	t.Helper()
	s := &scenario{
		t: t, h: start(t, Options{World: FreshWorld(), Latency: LatencyProfile{Job: time.Second}}), cases: loadGolden(t, recordings),
		byName: map[string]*goldenCase{}, keys: map[string][2]string{}, oldKeys: map[string][2]string{},
	}
	for _, c := range s.cases {
		s.byName[c.Case] = c
	}
	s.h.jobTime = afterJob
	s.ids = newBindings(t, s.cases, recordings+"-addresses.json")
	s.script = readScript(t, recordings+"-scenario.txt")
	neighbours := recordings + "-neighbours.txt"
	if _, err := os.Stat(neighbours); err == nil {
		for name, steps := range readScript(t, neighbours).before {
			s.script.before[name] = append(s.script.before[name], steps...)
		}
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
	replayAll(t, "testdata/golden")
}

func TestGoldenClusters(t *testing.T) {
	t.Parallel()
	replayAll(t, "testdata/golden-clusters")
}

func TestGoldenForwards(t *testing.T) {
	t.Parallel()
	replayAll(t, "testdata/golden-forwards")
}

func TestGoldenTags(t *testing.T) {
	t.Parallel()
	replayAll(t, "testdata/golden-tags")
}

// replayAll replays the recordings of a folder.
func replayAll(t *testing.T, recordings string) {
	t.Helper()
	s := newScenario(t, recordings)
	different := map[string]string{}
	for _, c := range s.cases {
		why := s.script.skip[c.Case]
		if why == "" {
			why = s.replay(c)
			if why != "" {
				t.Errorf("%s: %s", c.Case, why)
			}
		} else {
			t.Logf("skip: %s: %s", c.Case, why)
		}
		different[c.Case] = why
	}
	s.report(different)
}

// replay makes the calls before a case, then its own, and returns how the answer differs from the recording.
func (s *scenario) replay(c *goldenCase) string {
	s.pass(c)
	for _, step := range s.script.before[c.Case] {
		if why := s.run(step); why != "" {
			return "a call before it: " + why
		}
	}
	got := s.send(c)
	for _, f := range s.undo {
		f()
	}
	s.undo = nil
	s.rememberKeys(c, got)
	why := s.compare(c, got)
	if why != "" {
		s.ids.adopt(c, got)
	}
	return why
}

// pass lets the time pass that the caller of a case waited: until the jobs of
// the calls before have ended, unless it polls on purpose or belongs to calls
// that were made at once.
func (s *scenario) pass(c *goldenCase) {
	switch {
	case s.script.midJob[c.Case]:
		s.h.clock.Step(500 * time.Millisecond)
	case !c.pending && !s.script.atOnce[c.Case] && !s.sameMoment(c):
		s.h.clock.Step(afterJob)
	}
	s.h.sim.runDue()
}

// sameMoment reports whether a case is one of several calls made at once and not the first of them.
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

var update = flag.Bool("update", false, "write the transcript")

// goldenCase is a recorded exchange.
type goldenCase struct {
	recorded.Recording
	Response any

	index   int
	polled  bool   // a poll of the job of an earlier call
	pending bool   // that poll found it running
	base    string // the case whose job is polled
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
		if base, kind, ok := strings.Cut(r.Case, ".job-"); ok {
			c.polled, c.pending, c.base = true, kind == "pending", base
		}
		out = append(out, c)
	}
	return out
}

// report logs how many cases pass, by command and in total.
func (s *scenario) report(different map[string]string) {
	s.t.Helper()
	const total = "\xff" // sorts last
	passed, all := map[string]int{}, map[string]int{}
	for _, c := range s.cases {
		name := c.Command
		if base := s.byName[c.base]; c.polled && base != nil {
			name = "job of " + base.Command
		} else if c.polled {
			name = "job of a call that is not recorded"
		}
		for _, n := range []string{name, total} {
			all[n]++
			if different[c.Case] == "" {
				passed[n]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != total {
			s.t.Logf("golden: %-45s %3d of %3d", name, passed[name], all[name])
		}
	}
	s.t.Logf("golden: %d of %d recorded cases", passed[total], all[total])
}

var (
	goldenTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000$`)
	// internalID finds the database's ids and times inside texts.
	internalID = regexp.MustCompile(`((?i:\bid)=|"id":|"networkId":|"id": |"networkofferingid": |\bin domain |\[|\bID |zone |rule:|PrjAcct-k8s-project-)\d+`)
	instance   = regexp.MustCompile(`\bi-\d+-\d+-VM`)
	vlanURI    = regexp.MustCompile(`vlan://\d+`)
	randomUser = regexp.MustCompile(`for user id \[[0-9a-f-]+\]`)
)

// volatile members differ from call to call: counters of traffic, figures of the
// machine and the process, times to the millisecond, and what follows from the choice of a host.
var volatile = store.SetOf("receivedbytes", "sentbytes", "gputotal", "gpuused", "hostname", "hostid", "vlanname", "vlan", "expireAfter",
	"cpuallocated", "cpuallocatedvalue", "cpuallocatedpercentage", "cpuallocatedwithoverprovisioning", "memoryallocated",
	"memoryallocatedpercentage", "memoryallocatedbytes", "availableprocessors", "sessions", "heapmemoryused", "heapmemorytotal",
	"threadsdaemoncount", "threadsrunnablecount", "threadstotalcount", "threadswaitingcount", "systemmemorytotal", "systemmemoryfree",
	"systemmemoryvirtualsize", "systemtotalcpucycles", "systemloadaverages", "systemcycleusage", "cpuload", "javadistribution",
	"javaversion", "osdistribution", "kernelversion", "agents", "lastagents", "agentcount", "agentscount")

// unordered arrays are sets of named objects; the server's order is that of a hash table.
var unordered = store.SetOf("api", "params", "response", "service", "capability", "affinitygroup", "tag", "tags")

// comparer finds the first difference between a recorded answer and ours.
type comparer struct {
	same func(want, got string) bool // compares texts
	ours func(string) string         // puts our ids in the place of recorded ones
}

func brief(v any) string {
	s := fmt.Sprint(v)
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}

// diff compares two values at a path; key is the name of the member that holds them.
func (d *comparer) diff(path, key string, want, got any) string {
	if volatile[key] {
		if w, g := fmt.Sprintf("%T", want), fmt.Sprintf("%T", got); w != g {
			return fmt.Sprintf("%s: %s instead of %s", path, g, w)
		}
		return ""
	}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: %s instead of an object", path, brief(got))
		}
		return d.diffObject(path, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return fmt.Sprintf("%s: %d items instead of %d: %s", path, len(g), len(w), brief(names(g)))
		}
		if unordered[key] {
			w, g = byName(w, d.ours), byName(g, nil)
		}
		for i := range w {
			if why := d.diff(fmt.Sprintf("%s[%d]", path, i), key, w[i], g[i]); why != "" {
				return why
			}
		}
		return ""
	case string:
		g, ok := got.(string)
		if !ok || !d.same(w, g) {
			return fmt.Sprintf("%s: %s instead of %q", path, brief(got), w)
		}
		return ""
	case json.Number:
		g, ok := got.(json.Number)
		if !ok || w.String() != g.String() && !sameFloat(w, g) {
			return fmt.Sprintf("%s: %v instead of %v", path, got, want)
		}
		return ""
	}
	if want != got {
		return fmt.Sprintf("%s: %v instead of %v", path, got, want)
	}
	return ""
}

func sameFloat(a, b json.Number) bool {
	x, err1 := a.Float64()
	y, err2 := b.Float64()
	return err1 == nil && err2 == nil && x == y
}

func (d *comparer) diffObject(path string, want, got map[string]any) string {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[k]; !ok {
			return fmt.Sprintf("%s: member %s is missing (recorded %s)", path, k, brief(want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%s: member %s (%s) was not recorded", path, k, brief(got[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if why := d.diff(path+"."+k, k, want[k], got[k]); why != "" {
			return why
		}
	}
	return ""
}

func names(list []any) []string {
	var out []string
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			for _, k := range []string{"name", "ipaddress", "username", "key", "id"} {
				if s, ok := m[k].(string); ok {
					out = append(out, s)
					break
				}
			}
		}
	}
	return out
}

// byName sorts objects by their name.
func byName(list []any, ours func(string) string) []any {
	out := slices.Clone(list)
	key := func(v any) string {
		if ours == nil {
			return sortKey(v)
		}
		return ours(sortKey(v))
	}
	slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	return out
}

func sortKey(v any) string {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return "~"
	}
	return fmt.Sprint(m["name"], m["type"], m["key"], m["resourceid"])
}

// reply is what the simulator answered.
type reply struct {
	status      int
	contentType string
	body        any
}

// sessionState is the login that the session cases work with.
type sessionState struct {
	cookies []*http.Cookie
	key     string
}

// query builds an unsigned query; pairs are name, value, name, value ...
func query(command, key string, pairs []string) url.Values {
	q := url.Values{"command": {command}, "response": {"json"}, "apikey": {key}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
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
func (s *scenario) send(c *goldenCase) reply {
	if c.Command == "raw" {
		return s.raw(c)
	}
	q := url.Values{"command": {c.Command}, "response": {"json"}}
	for k, v := range c.Params {
		q.Set(k, s.ids.translate(fmt.Sprint(v)))
	}
	s.secrets(c, q)
	if c.Caller == "session" {
		return s.sendSession(c, q)
	}
	key, secret := s.keysOf(c)
	q.Set("apikey", key)
	s.stamp(c, q)
	var signature string
	switch {
	case c.Case == "auth.bad-signature":
		signature = "AAAAAAAAAAAAAAAAAAAAAAAAAAA="
	case strings.HasPrefix(c.Case, "auth.sigchar-go-"):
		signature = goSignature(secret, q)
	default:
		signature = wire.Sign(secret, toParams(q))
	}
	q.Set("signature", signature)
	post := strings.HasSuffix(c.Case, ".post") || strings.HasPrefix(c.Case, "postonly.post")
	return s.do(post, s.h.url, q, nil)
}

// stamp adds the version of the signature and its time of expiry where the case is about them.
func (s *scenario) stamp(c *goldenCase, q url.Values) {
	now := s.h.clock.Now()
	switch {
	case c.Case == "auth.empty-apikey":
		q.Set("apikey", "")
	case strings.HasPrefix(c.Case, "auth.v3-"):
		q.Set("signatureversion", "3")
		q.Set("expires", expiresOf(c.Case, now))
	case c.Case == "auth.v4":
		q.Set("signatureversion", "4")
	case strings.HasPrefix(c.Case, "postonly.") && !strings.HasSuffix(c.Case, "without-timestamp"):
		q.Set("signatureversion", "3")
		ahead := 10 * time.Minute
		if strings.HasSuffix(c.Case, "too-far") {
			ahead = time.Hour
		}
		q.Set("expires", now.Add(ahead).UTC().Format("2006-01-02T15:04:05-0700"))
	}
}

// secrets fills in what the recordings have redacted.
func (s *scenario) secrets(c *goldenCase, q url.Values) {
	if q.Has("password") {
		q.Set("password", "password")
		switch c.Case {
		case "createUser.short-password":
			q.Set("password", "")
		case "login.bad-password":
			q.Set("password", "wrong")
		}
	}
}

func expiresOf(name string, now time.Time) string {
	switch strings.TrimPrefix(name, "auth.v3-") {
	case "expired":
		return now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05-0700")
	case "bad-expires":
		return "tomorrow"
	case "expires-Z":
		return now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05Z")
	case "expires-far-future":
		return now.AddDate(10, 0, 0).UTC().Format("2006-01-02T15:04:05-0700")
	}
	return now.Add(time.Minute).UTC().Format("2006-01-02T15:04:05-0700")
}

// goSignature signs with Go's way of escaping, which treats ~ and * differently.
func goSignature(secret string, q url.Values) string {
	var ps []wire.Param
	for k, v := range q {
		ps = append(ps, wire.Param{Name: k, Value: v[0]})
	}
	text := wire.StringToSign(ps)
	text = strings.ReplaceAll(strings.ReplaceAll(text, "%7e", "~"), "*", "%2a")
	return wire.HmacOf(secret, text)
}

func (s *scenario) raw(c *goldenCase) reply {
	query := fmt.Sprint(c.Params["query"])
	if strings.HasPrefix(query, "http") {
		return s.do(false, strings.TrimSuffix(s.h.url, "/api"), nil, nil)
	}
	key, _ := s.keysOf(c)
	target := s.h.url
	if c.Case == "auth.wrong-path" {
		target += "x"
	}
	q, err := url.ParseQuery(strings.ReplaceAll(query, "REDACTED", key))
	require.NoError(s.t, err)
	return s.do(false, target, q, nil)
}

func (s *scenario) sendSession(c *goldenCase, q url.Values) reply {
	if s.session.key == "" && c.Command != "login" {
		s.do(true, s.h.url, url.Values{"command": {"login"}, "username": {"admin"}, "password": {"password"}, "response": {"json"}}, nil)
	}
	if q.Has("sessionkey") {
		q.Set("sessionkey", s.session.key)
	}
	cookies := s.session.cookies
	if c.Command == "login" {
		cookies = nil
	}
	return s.do(c.Command == "login" && c.Case != "login.by-get", s.h.url, q, cookies)
}

func (s *scenario) do(post bool, target string, q url.Values, cookies []*http.Cookie) reply {
	method, body := http.MethodGet, io.Reader(nil)
	if post {
		method, body = http.MethodPost, strings.NewReader(q.Encode())
	} else if q != nil {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, target, body)
	require.NoError(s.t, err)
	if post {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, ck := range cookies {
		req.AddCookie(ck)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	out := reply{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type"), body: string(raw)}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if strings.HasPrefix(out.contentType, "application/json") && d.Decode(&v) == nil {
		out.body = v
	}
	if len(resp.Cookies()) > 0 {
		s.session.cookies = resp.Cookies()
		for _, ck := range resp.Cookies() {
			if ck.Name == "sessionkey" {
				s.session.key = ck.Value
			}
		}
	}
	return out
}

// bindings say which object of ours plays the part of a recorded one, by id,
// and which public address that of a recorded address.
type bindings struct {
	recorded  []string          // every UUID of the recordings
	ours      map[string]string // recorded UUID -> ours
	theirs    map[string]string // ours -> recorded UUID
	addresses map[string]string // recorded public address -> ours
	addressOf map[string]string // recorded UUID of a public address -> that address
	learned   map[string]string // pairs of the comparison at hand
	taken     map[string]bool
}

var (
	uuidPattern   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	publicAddress = regexp.MustCompile(`\b(192\.168\.2|172\.16\.15)\.\d+\b`)
	placeholder   = regexp.MustCompile(`\{(@\w+|[0-9a-f-]+)\}`)
	// nicAddress is the address or the MAC of a NIC, both of which the server draws unless it is told.
	nicAddress = regexp.MustCompile(`\b(10\.\d+\.\d+\.\d+|02:01(:[0-9a-f]{2}){4})\b`)
)

func newBindings(t *testing.T, cases []*goldenCase, addresses string) *bindings {
	t.Helper()
	seen := map[string]bool{}
	var walk func(any)
	walk = func(x any) {
		switch x := x.(type) {
		case string:
			for _, id := range uuidPattern.FindAllString(x, -1) {
				seen[id] = true
			}
		case []any:
			for _, v := range x {
				walk(v)
			}
		case map[string]any:
			for _, v := range x {
				walk(v)
			}
		}
	}
	for _, c := range cases {
		walk(c.Params)
		walk(c.Response)
	}
	var addressOf map[string]string
	raw, err := os.ReadFile(addresses)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &addressOf))
	inverse := map[string]string{}
	for address, id := range addressOf {
		inverse[id] = address
	}
	return &bindings{addressOf: inverse, recorded: slices.Sorted(maps.Keys(seen)), ours: map[string]string{}, theirs: map[string]string{}, addresses: map[string]string{}}
}

// full is the recorded UUID that begins with the prefix.
func (b *bindings) full(prefix string) string {
	if prefix[0] == '@' { // a name of the script
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

// translate puts our ids and addresses in the place of recorded ones.
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

// bind makes ours play the part of a recorded object from now on.
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
	delete(b.addresses, b.addressOf[recorded]) // another one of ours, whose address its next answer shows
}

// bindResult binds what a call of the script names of its answer.
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

// subject is the object that an answer is about: itself, its only member, or the first item of its list.
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

// lookup finds the member at a path such as user.0.id; id when there is none.
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

// begin starts a comparison. What a call has just made takes over the part of its recorded object,
// whatever played it before: addresses keep their ids from owner to owner.
func (b *bindings) begin(c *goldenCase, got reply) {
	b.learned, b.taken = map[string]string{}, map[string]bool{}
	if c.HTTPStatus == 200 && got.status == 200 {
		b.adopt(c, got)
	}
}

// adopt binds the object and the job that the case has made.
func (b *bindings) adopt(c *goldenCase, got reply) {
	want, ok1 := inner(c.Response)
	have, ok2 := inner(got.body)
	if !ok1 || !ok2 || want["jobid"] == nil || c.polled {
		return
	}
	for _, k := range []string{"id", "jobid"} {
		if w, h := text(want[k]), text(have[k]); w != "" && h != "" && b.ours[w] != h {
			b.bind(w, h)
		}
	}
}

// end keeps the pairs of a comparison that found no difference.
func (b *bindings) end(equal bool) {
	if !equal {
		return
	}
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

// sameText compares a recorded text with ours: ids and addresses by the part they play, times and secrets by their form.
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

// samePair reports whether ours can stand for the recorded one: it does so already, or neither has a part yet.
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

// inner is the object inside an answer's envelope.
func inner(body any) (map[string]any, bool) {
	outer, ok := body.(map[string]any)
	if !ok {
		return nil, false
	}
	for _, v := range outer {
		m, ok := v.(map[string]any)
		return m, ok
	}
	return nil, false
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
