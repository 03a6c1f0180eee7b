// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is longer than any delay on a busy machine, which can sustain calm requests per second.
const (
	patience = 3 * time.Minute
	calm     = 50
)

func backend(t *testing.T) *Backend {
	t.Helper()
	b, err := StartBackend(t.Context(), "one", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	return b
}

// steady starts a client. It returns a function that waits until the report of its current part passes a check.
func steady(t *testing.T, targets ...string) (*Client, func(func(Report) bool)) {
	t.Helper()
	c := Start(t.Context(), "first", Options{Targets: targets, Open: true, Timeout: patience, rate: calm})
	t.Cleanup(func() { c.Stop() })
	return c, func(ok func(Report) bool) {
		t.Helper()
		require.Eventually(t, func() bool { return ok(c.part().end(time.Now())) }, patience, 5*time.Millisecond)
	}
}

// TestFailures: a connection that is closed after a response with "Connection: close" does not count as cut. An error
// status is a failure.
func TestFailures(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if failing.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		Handler("web").ServeHTTP(w, r)
	}))

	t.Cleanup(s.Close)
	web, one := s.Listener.Addr().String(), backend(t).Address()
	c, until := steady(t, web, one)
	until(func(r Report) bool { return r.Answers[web+" web"] > 30 && r.Answers[one+" one"] > 30 })
	r := c.Next("second")
	require.NoError(t, r.Err())
	assert.Equal(t, r.Requests, r.Answers[web+" web"]+r.Answers[one+" one"])
	failing.Store(true)
	until(func(r Report) bool { return r.Failures > 0 })
	last := c.Stop()
	assert.Positive(t, last.Errors[web+": answer 503 Service Unavailable"])
	assert.Equal(t, []Report{r, last}, c.Reports())
}

// TestLoss: the report contains refused connections, an open connection that was cut, and the gap.
func TestLoss(t *testing.T) {
	t.Parallel()
	b := backend(t)
	c, until := steady(t, b.Address())
	until(func(r Report) bool { return r.Requests > 20 && c.kept.Load() > 0 })
	b.Stop()
	refused := b.Address() + ": dial: connect: connection refused"
	until(func(r Report) bool { return r.Errors[refused] > 20 && r.Cut > 0 && r.LongestGap > 20*time.Second/calm })
	r := c.Stop()
	require.ErrorContains(t, r.Err(), refused)
	require.ErrorContains(t, r.Err(), "1 connections were cut")
}

// TestProxied: the client's address is the one in the header. If there is no header, or the client is not trusted, it
// is the address of the connection.
func TestProxied(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Handler(r.RemoteAddr).ServeHTTP(w, r)
	}))
	s.Listener = Proxied{l, EveryClient}
	s.Start()
	t.Cleanup(s.Close)
	for line, want := range map[string]string{
		"PROXY TCP4 198.51.100.7 203.0.113.9 40000 80\r\n": "198.51.100.7:40000",
		"PROXY TCP6 2001:db8::1 2001:db8::2 40000 80\r\n":  "[2001:db8::1]:40000",
		"PROXY TCP4 198.51.100.7 203.0.113.9 40000 80\n":   "",
		"PROXY UNKNOWN\r\n": "",
		"\r\nPROXY TCP4 198.51.100.7 203.0.113.9 1 80\r\n": "",
		"": "127.0.0.1:",
	} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		_, _ = fmt.Fprint(c, line)
		got, err := (&session{conn: c, in: bufio.NewReader(c)}).ask(patience)
		_ = c.Close()
		assert.Equal(t, want == "", err != nil, "%q: %v", line, err)
		assert.Contains(t, got, want, "%q", line)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	r := newRecord("x", []string{"a", "b"}, t0)
	for _, ms := range []int{10, 20, 15, 400, 410} { // answers may be recorded out of order
		r.answered("a", "one", at(ms))
	}

	for ms := 10; ms <= 900; ms += 10 {
		r.answered("b", "one", at(ms))
	}

	r.failed("a", errors.New("refused"))
	got := r.end(at(1000))
	if got.LongestGap != 590*time.Millisecond || got.Requests != 96 || got.Failures != 1 || got.Took != time.Second {
		t.Errorf("%+v: want the gap from a's last answer to the end", got)
	}

	late := newRecord("x", []string{"a"}, t0)
	late.answered("a", "one", at(10))
	late.endGaps(at(30))
	late.answered("a", "one", at(900)) // this request was in flight at the end
	if got := late.end(at(30)); got.LongestGap != 20*time.Millisecond || got.Requests != 2 {
		t.Errorf("%+v: want no gap after the last request was sent", got)
	}
}
