// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/ui/model"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")) // sleeps half a second
}

// world is a Source and Actions that the tests change.
type world struct {
	mu       sync.Mutex
	snapshot model.Snapshot
	err      error
	changed  chan struct{}
}

func (s *world) Snapshot(context.Context) (model.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot, s.err
}

func (s *world) Changed() <-chan struct{} { return s.changed }

func (s *world) set(err error, objects ...model.Object) {
	s.mu.Lock()
	s.snapshot = model.Snapshot{SchemaVersion: model.SchemaVersion, Title: "test", Objects: objects}
	s.err = err
	s.mu.Unlock()
	s.changed <- struct{}{}
}

func (s *world) SetFault(_ context.Context, name, _ string, enabled bool) error {
	if name != "down" {
		return ErrUnknown
	}
	s.mu.Lock()
	s.snapshot.Faults = []model.Fault{{Name: name, Enabled: enabled}}
	s.mu.Unlock()
	return nil
}

func (*world) Do(context.Context, string, string) error { return ErrUnknown }

func (s *world) SetSpeed(_ context.Context, speed float64) error {
	if speed > 1 {
		return errors.New("time cannot run faster")
	}
	return nil
}

type remedied struct{ error }

func (remedied) Remedy() string { return "start it" }

// env is a server on a real port, with a browser that may have the session's cookie.
type env struct {
	*Server
	world   *world
	clock   *clocktesting.FakeClock
	browser *http.Client
	base    string // http://127.0.0.1:PORT/PATH
}

func newEnv(t *testing.T, actions bool) *env {
	t.Helper()
	e := &env{world: &world{changed: make(chan struct{}, 1)}, clock: clocktesting.NewFakeClock(time.Now())}
	e.world.snapshot = model.Snapshot{
		SchemaVersion: model.SchemaVersion,
		Title:         "test",
		Objects:       []model.Object{{ID: "b"}, {ID: "a"}},
	}

	o := Options{Source: e.world, Clock: e.clock, Files: fstest.MapFS{
		"index.html": {Data: []byte("<!doctype html><title>page</title>")}, "app.js": {Data: []byte("go()")},
		"vendor/lib.js": {Data: []byte("lib()")}, "vendor/LICENSE": {Data: []byte("free")},
	}}

	if actions {
		o.Actions = e.world
	}

	s, err := Listen(t.Context(), o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	e.Server, e.base = s, s.door.origin+s.door.path
	e.browser = &http.Client{
		Transport:     &http.Transport{},
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		e.browser.CloseIdleConnections()
	})

	return e
}

// send sends a request with headers of the form "Name: value".
func (e *env) send(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := e.browser.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

// enter makes the first visit.
func (e *env) enter(t *testing.T) {
	t.Helper()
	resp, _ := e.send(t, http.MethodGet, e.URL(), "")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, e.door.path+"/", resp.Header.Get("Location"))
}

func TestToken(t *testing.T) {
	t.Parallel()
	e := newEnv(t, false)
	assert.True(t, strings.HasPrefix(e.URL(), "http://127.0.0.1:"))
	assert.Len(t, e.door.token, 43, "256 bits")
	host, _, err := net.SplitHostPort(e.listener.Addr().String())
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", host)

	for _, url := range []string{e.door.origin + "/", e.door.origin + "/?token=" + e.door.token, e.base, e.base + "/",
		e.base + "/app.js", e.base + "/api/snapshot", e.base + "/api/events", e.base + "/?token=",
		e.base + "/?token=" + strings.Repeat("A", 43), e.base + "/app.js?token=" + e.door.token} {
		resp, _ := e.send(t, http.MethodGet, url, "")
		assert.Equal(t, http.StatusForbidden, resp.StatusCode, url)
		assert.Empty(t, resp.Cookies(), url)
	}
	resp, text := e.send(t, http.MethodGet, e.URL(), "", "Sec-Fetch-Site: none")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	assert.NotContains(t, text, e.door.token)
	require.Len(t, resp.Cookies(), 1)
	session := resp.Cookies()[0]
	assert.True(t, session.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, session.SameSite)
	assert.NotEqual(t, e.door.token, session.Value)
	assert.Zero(t, session.MaxAge, "ends with the browser")

	resp, text = e.send(t, http.MethodGet, e.base+"/", "", "Sec-Fetch-Site: none")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Contains(t, text, "<title>page")
	resp, _ = e.send(t, http.MethodGet, e.URL(), "")
	assert.Equal(t, http.StatusSeeOther, resp.StatusCode, "a reload in the same browser")
	e.browser.Jar = nil
	resp, _ = e.send(t, http.MethodGet, e.URL(), "")
	assert.Equal(t, http.StatusForbidden, resp.StatusCode, "the token a second time")
	resp, _ = e.send(t, http.MethodGet, e.base+"/", "", "Cookie: "+cookie+"=guess")
	assert.Equal(t, http.StatusForbidden, resp.StatusCode)
}

// Browsers send a cookie to all ports of a host, and therefore to anything else that listens on 127.0.0.1.
func TestOtherPortsDoNotGetTheCookie(t *testing.T) {
	t.Parallel()
	e := newEnv(t, false)
	e.enter(t)
	got := make(chan string, 3)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Cookie")
	}))
	t.Cleanup(other.Close)
	for _, path := range []string{"/", "/app.js", "/api/snapshot"} {
		_, _ = e.send(t, http.MethodGet, other.URL+path, "")
		assert.Empty(t, <-got, path)
	}
	resp, _ := e.send(t, http.MethodGet, e.base+"/app.js", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

// TestLinkFromAFile follows the redirect in the file that csccm opens. The browser treats the request as one from
// another site and sends none of our cookies.
func TestLinkFromAFile(t *testing.T) {
	t.Parallel()
	e := newEnv(t, false)
	resp, text := e.send(t, http.MethodGet, e.URL(), "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Len(t, resp.Cookies(), 1)
	assert.Contains(t, text, `content="0; url=./"`)
	assert.NotContains(t, text, e.door.token)
	resp, _ = e.send(t, http.MethodGet, e.base+"/", "", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

// TestHostilePage sends the cookie in all requests, as a browser may.
func TestHostilePage(t *testing.T) {
	t.Parallel()
	e := newEnv(t, true)
	e.enter(t)
	own := "Origin: " + e.door.origin
	const post, json = http.MethodPost, "Content-Type: application/json"
	const fault, body = "/api/faults/down", `{"enabled":true}`
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		want               int
	}{
		"the page itself": {
			path:    "/api/snapshot",
			headers: []string{"Sec-Fetch-Site: same-origin"},
			want:    200,
		},
		"a program": {path: "/api/snapshot", want: 200},
		"fetch of another site": {
			path:    "/api/snapshot",
			headers: []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"},
			want:    403,
		},
		"script element of another site": {
			path:    "/app.js",
			headers: []string{"Sec-Fetch-Site: cross-site"},
			want:    403,
		},
		"another port of this machine": {
			path:    "/api/snapshot",
			headers: []string{"Sec-Fetch-Site: same-site"},
			want:    403,
		},
		"its origin alone": {
			path:    "/api/events",
			headers: []string{"Origin: http://127.0.0.1:1"},
			want:    403,
		},
		"origin null, of a sandbox": {path: "/api/snapshot", headers: []string{"Origin: null"}, want: 403},
		"a link to the page": {
			path:    "/",
			headers: []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"},
			want:    403,
		},
		"a typed address of data": {
			path:    "/api/snapshot",
			headers: []string{"Sec-Fetch-Site: none"},
			want:    403,
		},
		"DNS rebinding": {
			path:    "/api/snapshot",
			headers: []string{"Host: evil.example", "Sec-Fetch-Site: same-origin"},
			want:    403,
		},
		"DNS rebinding with the port": {
			path:    "/",
			headers: []string{"Host: evil.example" + strings.TrimPrefix(e.door.origin, "http://127.0.0.1")},
			want:    403,
		},
		"DNS rebinding with the token": {
			path:    "/?token=" + e.door.token,
			headers: []string{"Host: evil.example"},
			want:    403,
		},
		"no port": {path: "/api/snapshot", headers: []string{"Host: 127.0.0.1"}, want: 403},
		"localhost": {
			path: "/api/snapshot",
			headers: []string{"Host: " + e.door.hosts[1], "Origin: " + e.door.localhost,
				"Cookie: " + cookie + "=" + e.door.session},
			want: 200,
		},
		"post of the page":                {post, fault, body, []string{own, json, "Sec-Fetch-Site: same-origin"}, 204},
		"post of an older browser":        {post, fault, body, []string{own, json}, 204},
		"post without a sign of its page": {post, fault, body, []string{json}, 403},
		"post of another site": {post, fault, body,
			[]string{json, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, 403},
		"post typed by nobody": {post, fault, body, []string{own, json, "Sec-Fetch-Site: none"}, 403},
		"form of another site": {post, fault, body,
			[]string{"Content-Type: text/plain", "Origin: https://evil.example"}, 403},
		"form without origin": {post, fault, "enabled=true",
			[]string{"Content-Type: application/x-www-form-urlencoded"}, 403},
		"form of the own page": {post, fault, "enabled=true",
			[]string{own, "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: same-origin"}, 415},
		"unknown field": {post, fault, `{"enabled":true,"x":1}`, []string{own, json}, 400},
		"no field":      {post, fault, `{}`, []string{own, json}, 400},
		"long body": {post, fault, `{"enabled":` + strings.Repeat(" ", 5000) + `true}`,
			[]string{own, json}, 400},
		"unknown fault":                {post, "/api/faults/none", body, []string{own, json}, 404},
		"clock":                        {post, "/api/clock", `{"speed":0.1}`, []string{own, json}, 204},
		"clock that stands":            {post, "/api/clock", `{"speed":0}`, []string{own, json}, 400},
		"clock that the world refuses": {post, "/api/clock", `{"speed":2}`, []string{own, json}, 400},
		"post to what is only read":    {post, "/api/snapshot", body, []string{own, json}, 404},
		"post to the page":             {post, "/", body, []string{own, json}, 405},
		"preflight of another site": {http.MethodOptions, fault, "",
			[]string{"Origin: https://evil.example", "Access-Control-Request-Method: POST"}, 403},
		"file in a folder":        {path: "/vendor/lib.js", want: 200},
		"a folder":                {path: "/vendor/", want: 404},
		"out of the folder":       {path: "/..%2f..%2fgo.mod", want: 404},
		"no such file":            {path: "/none.js", want: 404},
		"no such part of the API": {path: "/api/secrets", want: 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, text := e.send(t, c.method, e.base+c.path, c.body, c.headers...)
			assert.Equal(t, c.want, resp.StatusCode, text)
			assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
			for name, value := range map[string]string{
				"Content-Security-Policy":      contentPolicy,
				"X-Content-Type-Options":       "nosniff",
				"Referrer-Policy":              "no-referrer",
				"Cache-Control":                "no-store",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				assert.Equal(t, value, resp.Header.Get(name))
			}
			assert.NotContains(t, text, e.door.token)
			assert.NotContains(t, text, e.door.session)
		})
	}

	t.Run("no actions", func(t *testing.T) {
		t.Parallel()
		looking := newEnv(t, false)
		looking.enter(t)
		for _, path := range []string{fault, "/api/clock"} {
			resp, _ := looking.send(t, post, looking.base+path, body, "Origin: "+looking.door.origin, json)
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		}
	})
}

// listen opens a stream; next returns its next event, or comment.
func (e *env) listen(t *testing.T) (next func() (event, data string)) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.base+"/api/events", http.NoBody)
	require.NoError(t, err)
	resp, err := e.browser.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	return func() (event, data string) {
		for lines.Scan() {
			switch name, value, _ := strings.Cut(lines.Text(), ": "); {
			case name == "event":
				event = value
			case name == "data":
				return event, value
			case name == "" && value != "":
				return "comment", value
			}
		}

		require.NoError(t, lines.Err())
		return "", ""
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	e := newEnv(t, true)
	e.enter(t)
	next := e.listen(t)
	event, data := next()
	assert.Equal(t, "snapshot", event)
	var shown model.Snapshot
	require.NoError(t, json.Unmarshal([]byte(data), &shown))
	assert.Equal(t, []model.Object{{ID: "a"}, {ID: "b"}}, shown.Objects)
	_, text := e.send(t, http.MethodGet, e.base+"/api/snapshot", "")
	assert.JSONEq(t, data, text)

	follow := func(want string) {
		t.Helper()
		event, data := next()
		require.Equal(t, "patch", event)
		var p model.Patch
		require.NoError(t, json.Unmarshal([]byte(data), &p))
		shown = shown.Apply(p)
		p.At = time.Time{}
		got, err := json.Marshal(p)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(got))
	}
	const at = `"at":"0001-01-01T00:00:00Z"`
	e.world.set(nil, model.Object{ID: "b", Name: "new"}, model.Object{ID: "c"})
	follow(`{` + at +
		`,"objects":[{"id":"b","kind":"","name":"new","health":""},{"id":"c","kind":"","name":"","health":""}],"removed":["a"]}`)
	e.world.set(remedied{errors.New("the API server does not answer")}, model.Object{ID: "b", Name: "lost"})
	follow(`{` + at + `,"missing":[{"part":"objects","reason":"the API server does not answer","remedy":"start it"}]}`)
	e.world.set(nil, model.Object{ID: "b", Name: "new"}, model.Object{ID: "c"})
	follow(`{` + at + `,"missing":[]}`)
	resp, _ := e.send(t, http.MethodPost, e.base+"/api/faults/down", `{"enabled":true}`, "Origin: "+e.door.origin,
		"Content-Type: application/json")
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	follow(`{` + at + `,"faults":[{"name":"down","title":"","enabled":true}]}`)
	assert.Len(t, shown.Objects, 2)

	e.clock.Step(keepAlive)
	event, data = next()
	assert.Equal(t, "comment keep-alive", event+" "+data)
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	e := newEnv(t, false)
	e.enter(t)
	for range maxStreams {
		next := e.listen(t)
		next()
	}
	resp, _ := e.send(t, http.MethodGet, e.base+"/api/events", "")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
}

// TestFirstError uses a source that has never been read successfully. The page must say so.
func TestFirstError(t *testing.T) {
	t.Parallel()
	s := newState()
	s.set(model.Snapshot{}, errors.New("no route"), time.Unix(1, 0))
	shown, _, err := s.get(t.Context())
	require.NoError(t, err)
	text, err := json.Marshal(shown)
	require.NoError(t, err)
	assert.JSONEq(t,
		`{"schemaVersion":1,"at":"`+time.Unix(1, 0).Format(time.RFC3339)+
			`","title":"","objects":[],"links":[],"missing":[{"part":"objects","reason":"no route"}]}`, string(text))
}
