// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

const emptyZones = `{"listzonesresponse":{}}`

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	f := newFakeAPI(t, func(int, url.Values) reply { return jsonReply(200, `{"listloadbalancerrulesresponse":{}}`) })
	c := f.client(t, WithClock(testclock.NewFakeClock(now)))
	_, err := c.ListLoadBalancerRules(t.Context(), LoadBalancerRuleQuery{Keyword: "a~b*c [d],e=f&g", Tags: map[string]string{"k": "v*~"}})
	require.NoError(t, err)

	calls := f.recorded()
	require.Len(t, calls, 1)
	got := calls[0]
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, apiPath, got.URL, "nothing of the call may be in the URL")
	require.Regexp(t, "^csccm/", got.Header.Get("User-Agent"))
	require.Equal(t, testAPIKey, got.Form.Get("apiKey"))
	require.Equal(t, "json", got.Form.Get("response"))
	require.Equal(t, "3", got.Form.Get("signatureversion"))
	require.Equal(t, "2026-11-21T10:10:00Z", got.Form.Get("expires"))
	require.Equal(t, "a~b*c [d],e=f&g", got.Form.Get("keyword"))
	require.Equal(t, "v*~", got.Form.Get("tags[0].value"))
	require.Equal(t, javaSign(got.Form, testSecretKey), got.Form.Get("signature"))
}

func TestRetries(t *testing.T) {
	t.Parallel()
	ok := jsonReply(200, emptyZones)
	okJob := jsonReply(200, `{"deleteloadbalancerruleresponse":{"jobid":"j"}}`)
	maintenance := jsonReply(503, `{"x":{"errorcode":503,"cserrorcode":9999,"errortext":"Maintenance or Shutdown has been initiated on this management server. Can not accept new jobs"}}`)
	page := func(status int) reply {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>bad gateway</html>")
		}
	}
	cut := func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	refused := jsonReply(431, `{"x":{"errorcode":431,"cserrorcode":4350,"errortext":"no"}}`)
	internal := jsonReply(530, `{"x":{"errorcode":530,"cserrorcode":4250,"errortext":"Internal error executing command, please contact your system administrator"}}`)
	throttled := jsonReply(429, `{"x":{"errorcode":429,"cserrorcode":9999,"errortext":"The given user has reached his/her account api limit, please retry after [1] ms."}}`)

	for name, tc := range map[string]struct {
		write     bool
		first     reply // answers of the first two calls
		wantCalls int
		wantErr   bool
		wantKind  Kind
		happened  bool
	}{
		"read, gateway error":       {first: page(502), wantCalls: 3},
		"read, connection cut":      {first: cut, wantCalls: 3},
		"read, maintenance":         {first: maintenance, wantCalls: 3},
		"read, throttled":           {first: throttled, wantCalls: 3},
		"read, refused":             {first: refused, wantCalls: 1, wantErr: true, wantKind: KindInvalid},
		"read, internal error":      {first: internal, wantCalls: 3},
		"write, gateway error":      {write: true, first: page(502), wantCalls: 1, wantErr: true, wantKind: KindTransient, happened: true},
		"write, proxy's 503":        {write: true, first: page(503), wantCalls: 1, wantErr: true, wantKind: KindTransient, happened: true},
		"write, connection cut":     {write: true, first: cut, wantCalls: 1, wantErr: true, wantKind: KindTransient, happened: true},
		"write, maintenance":        {write: true, first: maintenance, wantCalls: 3},
		"write, throttled":          {write: true, first: throttled, wantCalls: 3},
		"write, refused":            {write: true, first: refused, wantCalls: 1, wantErr: true, wantKind: KindInvalid},
		"write, internal error":     {write: true, first: internal, wantCalls: 1, wantErr: true, wantKind: KindUnknown},
		"write, answer without job": {write: true, first: jsonReply(200, `{"x":{}}`), wantCalls: 1, wantErr: true, wantKind: KindTransient, happened: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, func(n int, _ url.Values) reply {
				switch {
				case n <= 2:
					return tc.first
				case tc.write:
					return okJob
				}
				return ok
			})
			c := f.client(t)
			var err error
			if tc.write {
				_, err = c.DeleteLoadBalancerRule(t.Context(), "r")
			} else {
				_, err = c.ListZones(t.Context())
			}
			require.Len(t, f.recorded(), tc.wantCalls)
			if !tc.wantErr {
				require.NoError(t, err)
				return
			}
			e := asError(t, err)
			require.Equal(t, tc.wantKind, e.Kind, e.Error())
			require.Equal(t, tc.happened, e.MayHaveHappened)
			requireNoSecrets(t, err.Error())
		})
	}
}

func TestRetriesAreBoundedAndSignedAnew(t *testing.T) {
	t.Parallel()
	clk := testclock.NewFakeClock(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	f := newFakeAPI(t, func(int, url.Values) reply {
		clk.Step(time.Minute)
		return jsonReply(503, `{"x":{"errorcode":503,"errortext":"no"}}`)
	})
	c := f.client(t, WithClock(clk))
	_, err := c.ListZones(t.Context())
	require.True(t, IsKind(err, KindTransient), "%v", err)
	calls := f.recorded()
	require.Len(t, calls, defaultTries)
	seen := map[string]bool{}
	for _, c := range calls {
		require.Equal(t, javaSign(c.Form, testSecretKey), c.Form.Get("signature"))
		seen[c.Form.Get("expires")] = true
	}
	require.Len(t, seen, defaultTries, "each try must have its own expiry")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	// A port that refuses, and that nobody else can be given meanwhile: a connection has it.
	taken, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	c, err := NewClient(&Config{APIURL: "http://" + taken.LocalAddr().String() + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey}, WithJitter(noJitter))
	require.NoError(t, err)
	tries := 0
	c.observer = func(Observation) { tries++ }
	_, err = c.DeleteFirewallRule(t.Context(), "x")
	e := asError(t, err)
	require.Equal(t, KindTransient, e.Kind)
	require.False(t, e.MayHaveHappened, "nothing was sent")
	require.Equal(t, defaultTries, tries, "what was never sent can be sent again")
	require.Contains(t, err.Error(), "connection refused")
	requireNoSecrets(t, err.Error())
}

func TestThrottlingHoldsBackAllCalls(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	clk := testclock.NewFakeClock(start)
	g := golden(t, "throttle.exceeded") // retry after [29012] ms
	f := newFakeAPI(t, func(n int, _ url.Values) reply {
		if n == 1 {
			return g.reply()
		}
		return jsonReply(200, emptyZones)
	})
	c := f.client(t, WithClock(clk))
	done := make(chan error, 2)
	list := func() { _, err := c.ListZones(context.Background()); done <- err }
	go list()
	require.Eventually(t, clk.HasWaiters, time.Minute, time.Millisecond)
	go list()
	require.Eventually(t, func() bool { return clk.Waiters() == 2 }, time.Minute, time.Millisecond)
	clk.Step(29 * time.Second)
	require.Equal(t, 2, clk.Waiters(), "29.000 s is too early")
	require.Len(t, f.recorded(), 1)
	clk.Step(12 * time.Millisecond)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Len(t, f.recorded(), 3)
}

func TestThrottledBeyondDeadline(t *testing.T) {
	t.Parallel()
	g := golden(t, "throttle.exceeded-async-command")
	synctest.Test(t, func(t *testing.T) {
		f := newMemoryAPI(t, func(int, url.Values) reply { return g.reply() })
		c := f.client(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.AssociateIP(ctx, AssociateIPRequest{NetworkID: "n"})
		require.True(t, IsKind(err, KindThrottled), "%v", err)
		require.Contains(t, err.Error(), "28961")
		require.Zero(t, time.Since(start), "a wait that cannot end in time must not begin")
		// A later call of the same client does not even try.
		_, err = c.ListZones(ctx)
		require.True(t, IsKind(err, KindThrottled), "%v", err)
		require.Len(t, f.recorded(), 1)
	})
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	clk := testclock.NewFakeClock(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	f := newFakeAPI(t, func(int, url.Values) reply { return jsonReply(200, emptyZones) })
	cfg := f.config()
	cfg.RateLimit, cfg.RateBurst = 10, 3
	c, err := NewClient(cfg, WithClock(clk))
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	for range 3 {
		_, err := c.ListZones(t.Context())
		require.NoError(t, err)
	}
	done := make(chan error, 1)
	go func() { _, err := c.ListZones(context.Background()); done <- err }()
	require.Eventually(t, clk.HasWaiters, time.Minute, time.Millisecond)
	require.Len(t, f.recorded(), 3, "the burst is used up")
	clk.Step(100 * time.Millisecond)
	require.NoError(t, <-done)
	require.Len(t, f.recorded(), 4)

	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, err := c.ListZones(ctx); done <- err }()
	require.Eventually(t, clk.HasWaiters, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Len(t, f.recorded(), 4)
}

func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	f := newFakeAPI(t, func(int, url.Values) reply { return func(http.ResponseWriter) { <-block } })
	c := f.client(t)
	t.Cleanup(func() { close(block) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.CreateTags(ctx, "LoadBalancer", []string{"a"}, map[string]string{"k": "v"})
		done <- err
	}()
	require.Eventually(t, func() bool { return len(f.recorded()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, asError(t, err).MayHaveHappened)
}

func TestTimeoutOfOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		f := newMemoryAPI(t, func(int, url.Values) reply { return func(http.ResponseWriter) { <-block } })
		t.Cleanup(func() { close(block) })
		cfg, start := f.config(), time.Now()
		_, err := f.clientOf(t, cfg).DisassociateIP(t.Context(), "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, asError(t, err).MayHaveHappened)
		require.Len(t, f.recorded(), 1)
		require.Equal(t, cfg.Timeout, time.Since(start))
	})
}

func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply reply
		kind  Kind
		text  string
	}{
		"wrong path (recorded)":    {golden(t, "auth.wrong-path").reply(), KindInvalid, "is api-url right"},
		"user interface, recorded": {golden(t, "auth.root").reply(), KindInvalid, "web page (HTML)"},
		"login by GET, recorded":   {golden(t, "login.by-get").reply(), KindInvalid, "is api-url right"},
		"redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere?apiKey="+testAPIKey)
			w.WriteHeader(http.StatusFound)
		}, KindInvalid, "redirect"},
		"empty":          {jsonReply(200, ""), KindInvalid, "empty answer"},
		"array":          {jsonReply(200, `[]`), KindInvalid, "not JSON"},
		"inner null":     {jsonReply(200, `{"listzonesresponse":null}`), KindInvalid, "in place of the API"},
		"xml":            {jsonReply(200, `<?xml version="1.0"?><listzonesresponse/>`), KindInvalid, "XML"},
		"too large":      {jsonReply(200, `{"listzonesresponse":{"x":"`+strings.Repeat("y", maxAnswerSize)+`"}}`), KindInvalid, "larger than 32 MiB"},
		"foreign object": {jsonReply(200, `{"listzonesresponse":{"error":"x"}}`), KindTransient, "has no zone"},
		"count no array": {jsonReply(200, `{"listzonesresponse":{"count":3}}`), KindTransient, "not complete"},
		"wrong type":     {jsonReply(200, `{"listzonesresponse":{"count":1,"zone":"a"}}`), KindTransient, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeAPI(t, func(int, url.Values) reply { return tc.reply }).client(t)
			_, err := c.ListZones(t.Context())
			e := asError(t, err)
			require.Equal(t, tc.kind, e.Kind, e.Error())
			require.Contains(t, e.Error(), tc.text)
			requireNoSecrets(t, e.Error())
		})
	}
}

func TestClockSkewIsNamed(t *testing.T) {
	t.Parallel()
	g := golden(t, "auth.bad-signature")
	for name, tc := range map[string]struct {
		server time.Duration // from now
		text   string
	}{
		"in step": {time.Minute, ""},
		"behind":  {time.Hour, "behind the server's"},
		"ahead":   {-20 * time.Minute, "ahead of the server's"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t, func(int, url.Values) reply {
				return func(w http.ResponseWriter) {
					w.Header().Set("Date", time.Now().Add(tc.server).UTC().Format(http.TimeFormat))
					g.reply()(w)
				}
			})
			_, err := f.client(t).ListZones(t.Context())
			require.True(t, IsKind(err, KindAuth), "%v", err)
			if tc.text == "" {
				require.NotContains(t, err.Error(), "clock")
			} else {
				require.Contains(t, err.Error(), tc.text)
			}
			require.Len(t, f.recorded(), 1, "bad keys do not get better")
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, emptyZones) }))
	srv.Config.ErrorLog = nil
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	caFile := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	junk := filepath.Join(dir, "junk.pem")
	require.NoError(t, os.WriteFile(junk, []byte("no certificate"), 0o600))
	base := Config{APIURL: srv.URL + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey}

	try := func(change func(*Config)) error {
		cfg := base
		change(&cfg)
		c, err := NewClient(&cfg, WithJitter(noJitter))
		if err != nil {
			return err
		}
		defer c.CloseIdleConnections()
		_, err = c.ListZones(t.Context())
		return err
	}
	err := try(func(*Config) {})
	require.True(t, IsKind(err, KindTransient), "%v", err)
	require.Contains(t, err.Error(), "ca-file")
	require.NoError(t, try(func(c *Config) { c.CAFile = caFile }))
	require.NoError(t, try(func(c *Config) { c.SSLNoVerify = true }))
	require.ErrorContains(t, try(func(c *Config) { c.CAFile = junk }), "no PEM certificate")
	require.ErrorContains(t, try(func(c *Config) { c.CAFile = filepath.Join(dir, "absent.pem") }), "ca-file")
}

// roundTripFunc is a transport made of a function.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransportErrorsAreClean(t *testing.T) {
	t.Parallel()
	cfg := &Config{APIURL: "http://127.0.0.1:1" + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey}
	c, err := NewClient(cfg, WithJitter(noJitter), WithTransport(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		b, _ := io.ReadAll(r.Body)
		return nil, errors.New("proxy said no to http://u:p@host/client/api?" + string(b) + " key " + testSecretKey)
	})))
	require.NoError(t, err)
	_, err = c.ListZones(t.Context())
	e := asError(t, err)
	require.Equal(t, KindTransient, e.Kind)
	requireNoSecrets(t, e.Error(), e.Text, e.Err.Error(), fmt.Sprintf("%#v %+v", e, e.Err))
	require.NotContains(t, e.Error(), "u:p@")
}

func TestObserver(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, func(n int, _ url.Values) reply {
		if n == 1 {
			return jsonReply(503, `{"x":{"errorcode":503}}`)
		}
		return jsonReply(200, emptyZones)
	})
	var seen []Observation
	c, err := NewClient(f.config(), WithJitter(noJitter), WithObserver(func(o Observation) { seen = append(seen, o) }))
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	_, err = c.ListZones(t.Context())
	require.NoError(t, err)
	require.Len(t, seen, 2)
	require.Equal(t, Observation{Command: "listZones", Code: 503, Kind: KindTransient, Try: 1, Duration: seen[0].Duration}, seen[0])
	require.Equal(t, Observation{Command: "listZones", Code: 200, OK: true, Try: 2, Duration: seen[1].Duration}, seen[1])
}
