// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCookie(t *testing.T) {
	t.Parallel()
	public := netip.MustParseAddrPort("203.0.113.20:80")
	for name, tc := range map[string]struct {
		params map[string]string
		want   Cookie
		err    string
	}{
		"nothing":               {nil, Cookie{Name: "lbcooki_209728400_80", Mode: CookieInsert}, ""},
		"all":                   {map[string]string{"cookie-name": "SRV", "mode": "insert", "indirect": "null", "nocache": "null", "postonly": "null", "domain": ".example.com"}, Cookie{"SRV", CookieInsert, ".example.com", true, true, true}, ""},
		"names in capitals":     {map[string]string{"Cookie-Name": "SRV", "Mode": "prefix"}, Cookie{Name: "SRV", Mode: CookiePrefix}, ""},
		"a flag of value false": {map[string]string{"cookie-name": "SRV", "indirect": "false"}, Cookie{Name: "SRV", Mode: CookieInsert, Indirect: true}, ""},
		"words in the mode":     {map[string]string{"cookie-name": "SRV", "mode": "insert indirect"}, Cookie{Name: "SRV", Mode: CookieInsert, Indirect: true}, ""},
		"no mode":               {map[string]string{"cookie-name": "SRV", "mode": ""}, Cookie{Name: "SRV"}, ""},
		"an unknown mode":       {map[string]string{"mode": "learn"}, Cookie{}, `stickiness LbCookie "learn": HAProxy does not know this word; the modes are insert, rewrite and prefix`},
		"a blank in the name":   {map[string]string{"cookie-name": "my cookie"}, Cookie{}, `stickiness LbCookie "cookie": HAProxy does not know this word; the modes are insert, rewrite and prefix`},
		"two modes":             {map[string]string{"mode": "insert prefix"}, Cookie{}, "stickiness LbCookie: HAProxy accepts only one of the modes insert and prefix"},
		"rewrite and indirect":  {map[string]string{"mode": "rewrite", "indirect": "null"}, Cookie{}, "stickiness LbCookie: HAProxy does not accept indirect with mode rewrite"},
		"no domain":             {map[string]string{"domain": ""}, Cookie{}, "stickiness LbCookie: HAProxy requires a name after domain"},
		"nothing at all":        {map[string]string{"cookie-name": "", "mode": ""}, Cookie{}, "stickiness LbCookie: the cookie has no name"},
	} {
		got, err := parseCookie(tc.params, public)
		if tc.err != "" {
			require.EqualError(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, &tc.want, got, name)
	}
}

func TestCookieOfRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		c     Cookie
		lines []string
		asked []string
		sent  []string // to the member
	}{
		"no cookie":                   {Cookie{Name: "S", Mode: CookieInsert}, nil, nil, nil},
		"another's":                   {Cookie{Name: "S", Mode: CookieInsert}, []string{"a=1; s=2"}, nil, []string{"a=1; s=2"}},
		"insert lets members see it":  {Cookie{Name: "S", Mode: CookieInsert}, []string{"S=one"}, []string{"one"}, []string{"S=one"}},
		"indirect hides it":           {Cookie{Name: "S", Mode: CookieInsert, Indirect: true}, []string{"a=1; S=one; b=2"}, []string{"one"}, []string{"a=1; b=2"}},
		"indirect, the first":         {Cookie{Name: "S", Mode: CookieInsert, Indirect: true}, []string{"S=one; b=2"}, []string{"one"}, []string{"b=2"}},
		"indirect, the only one":      {Cookie{Name: "S", Mode: CookieInsert, Indirect: true}, []string{"S=one"}, []string{"one"}, nil},
		"indirect, one line of two":   {Cookie{Name: "S", Mode: CookieInsert, Indirect: true}, []string{"S=one", "c=3"}, []string{"one"}, []string{"c=3"}},
		"a date behind it":            {Cookie{Name: "S", Mode: CookieInsert}, []string{"S=one|abcde|fghij"}, []string{"one"}, []string{"S=one|abcde|fghij"}},
		"an empty one":                {Cookie{Name: "S", Mode: CookieInsert}, []string{"S="}, nil, []string{"S="}},
		"several":                     {Cookie{Name: "S", Mode: CookieInsert}, []string{"S=one; S=two"}, []string{"one", "two"}, []string{"S=one; S=two"}},
		"rewrite":                     {Cookie{Name: "S", Mode: CookieRewrite}, []string{"S=one"}, []string{"one"}, []string{"S=one"}},
		"prefix takes its part away":  {Cookie{Name: "S", Mode: CookiePrefix}, []string{"a=1; S=one~own~more; b=2"}, []string{"one"}, []string{"a=1; S=own~more; b=2"}},
		"prefix without a part":       {Cookie{Name: "S", Mode: CookiePrefix}, []string{"S=own"}, []string{"own"}, []string{"S=own"}},
		"prefix of nothing":           {Cookie{Name: "S", Mode: CookiePrefix}, []string{"S=~own"}, nil, []string{"S=own"}},
		"a word without equals":       {Cookie{Name: "S", Mode: CookieInsert, Indirect: true}, []string{"S; a=1"}, nil, []string{"S; a=1"}},
		"a passive cookie is read":    {Cookie{Name: "S"}, []string{"S=one"}, []string{"one"}, []string{"S=one"}},
		"indirect means insert alone": {Cookie{Name: "S", Indirect: true}, []string{"S=one"}, []string{"one"}, []string{"S=one"}},
	} {
		h := http.Header{}
		if tc.lines != nil {
			h["Cookie"] = tc.lines
		}
		require.Equal(t, tc.asked, tc.c.ask(h), name)
		require.Equal(t, tc.sent, h["Cookie"], name)
	}
}

func TestCookieOfAnswer(t *testing.T) {
	t.Parallel()
	ours := "S=10_1_1_21-30080"
	for name, tc := range map[string]struct {
		c       Cookie
		method  string
		direct  bool
		set     []string
		want    []string
		caching []string // values of Cache-Control
	}{
		"insert":                      {Cookie{Name: "S", Mode: CookieInsert}, "GET", false, []string{"a=1"}, []string{"a=1", ours + "; path=/"}, nil},
		"insert, the same member":     {Cookie{Name: "S", Mode: CookieInsert}, "GET", true, nil, nil, nil},
		"insert, the member's own":    {Cookie{Name: "S", Mode: CookieInsert}, "GET", false, []string{"S=x; path=/y"}, []string{ours + "; path=/"}, nil},
		"insert with a domain":        {Cookie{Name: "S", Mode: CookieInsert, Domain: ".a.b"}, "GET", false, nil, []string{ours + "; path=/; domain=.a.b"}, nil},
		"nocache":                     {Cookie{Name: "S", Mode: CookieInsert, NoCache: true}, "GET", false, nil, []string{ours + "; path=/"}, []string{"private"}},
		"nocache, the same member":    {Cookie{Name: "S", Mode: CookieInsert, NoCache: true}, "GET", true, nil, nil, nil},
		"nocache, an answer to POST":  {Cookie{Name: "S", Mode: CookieInsert, NoCache: true}, "POST", false, nil, []string{ours + "; path=/"}, nil},
		"postonly, GET":               {Cookie{Name: "S", Mode: CookieInsert, PostOnly: true}, "GET", false, nil, nil, nil},
		"postonly, POST":              {Cookie{Name: "S", Mode: CookieInsert, PostOnly: true}, "POST", false, nil, []string{ours + "; path=/"}, nil},
		"rewrite, no cookie":          {Cookie{Name: "S", Mode: CookieRewrite}, "GET", false, nil, nil, nil},
		"rewrite":                     {Cookie{Name: "S", Mode: CookieRewrite}, "GET", true, []string{"S=x; path=/y; HttpOnly"}, []string{ours + "; path=/y; HttpOnly"}, nil},
		"prefix":                      {Cookie{Name: "S", Mode: CookiePrefix}, "GET", true, []string{"S=x; path=/y", "T=1"}, []string{ours + "~x; path=/y", "T=1"}, nil},
		"passive":                     {Cookie{Name: "S"}, "GET", false, []string{"S=x"}, []string{"S=x"}, nil},
		"passive, indirect, the same": {Cookie{Name: "S", Indirect: true}, "GET", true, []string{"S=x"}, nil, nil},
	} {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
		if tc.set != nil {
			resp.Header["Set-Cookie"] = tc.set
		}
		tc.c.answer(resp, tc.method, addr(21), tc.direct)
		require.Equal(t, tc.want, resp.Header["Set-Cookie"], name)
		require.Equal(t, tc.caching, resp.Header["Cache-Control"], name)
	}
}

func TestCacheable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		h      http.Header
		want   bool
	}{
		"plain":                {200, nil, true},
		"a redirect":           {302, nil, false},
		"a redirect, public":   {302, http.Header{"Cache-Control": {"max-age=60, public"}}, true},
		"no-store":             {200, http.Header{"Cache-Control": {"public", "no-store"}}, false},
		"an age":               {200, http.Header{"Cache-Control": {"max-age=60"}}, true},
		"no age":               {200, http.Header{"Cache-Control": {"Max-Age=0"}}, false},
		"the old word for it":  {200, http.Header{"Pragma": {"no-cache"}, "Cache-Control": {"public"}}, false},
		"an error of a server": {500, nil, false},
	} {
		require.Equal(t, tc.want, cacheable(&http.Response{StatusCode: tc.status, Header: tc.h}, "GET"), name)
	}
}

// TestLbCookie sends requests of two browsers through a rule with an LbCookie policy that was created by the API.
func TestLbCookie(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	id := b.rule("80")
	b.api(true, "createLBStickinessPolicy", "lbruleid", id, "name", "p", "methodname", "LbCookie",
		"param[0].name", "cookie-name", "param[0].value", "SRV", "param[1].name", "indirect", "param[2].name", "nocache")
	b.inForce(id, func(l Listener) bool { return l.Cookie != nil })
	ask := func(cookie string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://web.example.com/?set=own%3D1", nil)
		require.NoError(t, err)
		if cookie != "" {
			req.Header.Set("Cookie", cookie)
		}
		resp, err := b.client(site).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	values := map[string]string{"one": "SRV=10_1_1_21-30080", "two": "SRV=10_1_1_22-30080"}
	for range 2 {
		first := ask("")
		member := first.Header.Get("X-Member")
		require.Equal(t, []string{"own=1", values[member] + "; path=/"}, first.Header["Set-Cookie"])
		require.Equal(t, "private", first.Header.Get("Cache-Control"))
		for range 3 {
			again := ask("x=y; " + values[member])
			require.Equal(t, member, again.Header.Get("X-Member"))
			require.Equal(t, []string{"own=1"}, again.Header["Set-Cookie"], "a client with the cookie gets no new one")
			require.Equal(t, "x=y", again.Header.Get("X-Cookie"), "members do not receive the cookie")
		}
	}
	require.Contains(t, ask("SRV=10_9_9_9-1").Header["Set-Cookie"][1], "SRV=10_1_1_2", "an unknown member is replaced")

	b.api(true, "stopVirtualMachine", "id", b.vm("demo-worker-1"))
	b.eventually("the member is down", func() bool { b.path.check(); return !b.at(site).Members[0].Up })
	moved := ask(values["one"])
	require.Equal(t, "two", moved.Header.Get("X-Member"))
	require.Contains(t, moved.Header["Set-Cookie"], values["two"]+"; path=/")
}
