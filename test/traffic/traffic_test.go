// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is longer than any delay on a busy machine.
const patience = 3 * time.Minute

// calm is a request rate that a busy machine can sustain.
const calm = 50

// until polls until ok returns true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("waited for " + what)
		case <-tick.C:
		}
	}
}

func backend(t *testing.T, name string) *Backend {
	t.Helper()
	b, err := StartBackend(t.Context(), name, "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	return b
}

func (c *Client) now() Report { return c.part().end(time.Now()) }

func TestNothingLost(t *testing.T) {
	t.Parallel()
	one, two := backend(t, "one"), backend(t, "two")
	c := Start(t.Context(), "calm", Options{Targets: []string{one.Address(), two.Address()}, Rate: calm, Timeout: patience})
	until(t, "60 requests", func() bool {
		r := c.now()
		return r.Answers[one.Address()+" one"] >= 30 && r.Answers[two.Address()+" two"] >= 30
	})
	r := c.Next("more")
	require.NoError(t, r.Err())
	assert.Equal(t, r.Requests, r.Answers[one.Address()+" one"]+r.Answers[two.Address()+" two"])
	until(t, "a request of the second part", func() bool { return c.now().Requests > 0 })
	if last := c.Stop(); last.Name != "more" || last.Requests == 0 {
		t.Errorf("the second part: %+v", last)
	}
	assert.Len(t, c.Reports(), 2)
}

// TestConnectionClose: a connection that is closed after a response with "Connection: close" does not count as cut; an
// error status is a failure.
func TestConnectionClose(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if failing.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, "web %s\n", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	at := s.Listener.Addr().String()
	c := Start(t.Context(), "x", Options{Targets: []string{at}, Rate: calm, Timeout: patience})
	until(t, "60 requests", func() bool { return c.now().Requests >= 60 })
	if r := c.Next("y"); r.Err() != nil || r.Answers[at+" web"] < 60 {
		t.Errorf("%+v", r)
	}
	failing.Store(true)
	until(t, "failures", func() bool { return c.now().Failures > 0 })
	if r := c.Stop(); r.Errors[at+": answer 503 Service Unavailable"] == 0 {
		t.Errorf("the errors do not hold the status: %v", r.Errors)
	}
}

// TestProxyHeader: a backend answers on a connection with a PROXY protocol header.
func TestProxyHeader(t *testing.T) {
	t.Parallel()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", backend(t, "one").Address())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprint(c, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"); err != nil {
		t.Fatal(err)
	}
	s := &session{conn: c, in: bufio.NewReader(c)}
	for range 2 {
		if name, err := s.ask(time.Minute); err != nil || name != "one" || s.ended {
			t.Errorf("%q, %v", name, err)
		}
	}
}

func TestLossIsSeen(t *testing.T) {
	t.Parallel()
	b := backend(t, "one")
	c := Start(t.Context(), "lost", Options{Targets: []string{b.Address()}, Rate: calm, Timeout: patience})
	until(t, "an answer by an open connection", func() bool { return c.kept.Load() > 0 })
	until(t, "some requests", func() bool { return c.now().Requests > 20 })
	b.Stop()
	refused := b.Address() + ": dial: connect: connection refused"
	until(t, "failures and the cut connection", func() bool { r := c.now(); return r.Errors[refused] > 20 && r.Cut > 0 })
	until(t, "a gap", func() bool { return c.now().LongestGap > 20*time.Second/calm })
	r := c.Stop()
	err := r.Err()
	if err == nil || !strings.Contains(err.Error(), refused) || !strings.Contains(err.Error(), "1 connections were cut") {
		t.Errorf("Err() = %v, want the refused connections and the cut one", err)
	}
}

// Requests in flight when the client is stopped count, and the wait for them is not a gap.
func TestStopLosesNothing(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel accepts connections, but nothing answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	b, began := backend(t, "one"), time.Now()
	c := Start(t.Context(), "x", Options{Targets: []string{b.Address(), l.Addr().String()}, Rate: calm, Timeout: patience, Open: -1})
	until(t, "some answers", func() bool { return c.now().Requests > 20 })
	stopped := make(chan Report)
	go func() { stopped <- c.Stop() }()
	until(t, "the end of the requests", func() bool { p := c.part(); p.mu.Lock(); defer p.mu.Unlock(); return p.ended })
	most := time.Since(began)
	_ = l.Close() // ends the requests in flight
	r := <-stopped
	if r.Failures == 0 || r.Answers[b.Address()+" one"] < 20 {
		t.Errorf("%+v: want failures of the requests in flight", r)
	}
	if r.LongestGap > r.Took || r.Took > most {
		t.Errorf("longest gap %s, duration %s, want at most %s: the wait at the end was counted", r.LongestGap, r.Took, most)
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
	late.answered("a", "one", at(900)) // was in flight
	if got := late.end(at(30)); got.LongestGap != 20*time.Millisecond || got.Requests != 2 {
		t.Errorf("%+v: want no gap after the last request was sent", got)
	}
}
