// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func newBindings(t *testing.T, cases []*goldenCase) *bindings {
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
	readJSON(t, "testdata/golden-addresses.json", &addressOf)
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
			if m, ok := v[0].(map[string]any); ok && k != "uuidList" {
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

// samePair tells whether ours can stand for the recorded one: it does so already, or neither has a part yet.
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
