// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	testclock "k8s.io/utils/clock/testing"
)

const emptyZones = `{"listzonesresponse":{}}`

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	f := always(jsonReply(200, `{"listpublicipaddressesresponse":{}}`))
	c := f.client(t, WithClock(testclock.NewFakeClock(now)))
	_, err := c.ListPublicIPs(t.Context(),
		PublicIPQuery{Address: "a~b*c [d],e=f&g", Tags: map[string]string{"k": "v*~"}})
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
	require.Equal(t, "a~b*c [d],e=f&g", got.Form.Get("ipaddress"))
	require.Equal(t, "v*~", got.Form.Get("tags[0].value"))
	require.Equal(t, signatureOf(got.Form, testSecretKey), got.Form.Get("signature"))
}

func TestRetries(t *testing.T) {
	t.Parallel()
	ok := jsonReply(200, emptyZones)
	okJob := jsonReply(200, `{"deleteloadbalancerruleresponse":{"jobid":"j"}}`)
	maintenance := jsonReply(503,
		`{"x":{"errorcode":503,"cserrorcode":9999,"errortext":"Maintenance or Shutdown has been initiated on this management server. Can not accept new jobs"}}`)
	page := func(status int) reply {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>bad gateway</html>")
		}
	}
	cut := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	refused := jsonReply(431, `{"x":{"errorcode":431,"cserrorcode":4350,"errortext":"no"}}`)
	internal := jsonReply(530,
		`{"x":{"errorcode":530,"cserrorcode":4250,"errortext":"Internal error executing command, please contact your system administrator"}}`)
	throttled := jsonReply(429,
		`{"x":{"errorcode":429,"cserrorcode":9999,"errortext":"The given user has reached his/her account api limit, please retry after [1] ms."}}`)

	for name, tc := range map[string]struct {
		write     bool
		first     reply // answers of the first two calls
		wantCalls int
		wantErr   bool
		wantKind  Kind
		happened  bool
	}{
		"read, gateway error":  {first: page(502), wantCalls: 3},
		"read, connection cut": {first: cut, wantCalls: 3},
		"read, maintenance":    {first: maintenance, wantCalls: 3},
		"read, throttled":      {first: throttled, wantCalls: 3},
		"read, refused":        {first: refused, wantCalls: 1, wantErr: true, wantKind: KindInvalid},
		"read, internal error": {first: internal, wantCalls: 3},
		"write, gateway error": {
			write:     true,
			first:     page(502),
			wantCalls: 1,
			wantErr:   true,
			wantKind:  KindTransient,
			happened:  true,
		},
		"write, proxy's 503": {
			write:     true,
			first:     page(503),
			wantCalls: 1,
			wantErr:   true,
			wantKind:  KindTransient,
			happened:  true,
		},
		"write, connection cut": {
			write:     true,
			first:     cut,
			wantCalls: 1,
			wantErr:   true,
			wantKind:  KindTransient,
			happened:  true,
		},
		"write, maintenance":    {write: true, first: maintenance, wantCalls: 3},
		"write, throttled":      {write: true, first: throttled, wantCalls: 3},
		"write, refused":        {write: true, first: refused, wantCalls: 1, wantErr: true, wantKind: KindInvalid},
		"write, internal error": {write: true, first: internal, wantCalls: 1, wantErr: true, wantKind: KindUnknown},
		"write, answer without job": {
			write:     true,
			first:     jsonReply(200, `{"x":{}}`),
			wantCalls: 1,
			wantErr:   true,
			wantKind:  KindTransient,
			happened:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(func(n int, _ url.Values) reply {
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
				_, err = c.Delete(t.Context(), "deleteLoadBalancerRule", "r")
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
	synctest.Test(t, func(t *testing.T) {
		for code, tries := range map[int]int{503: defaultTries, 530: internalTries} {
			f := newFakeAPI(func(int, url.Values) reply {
				time.Sleep(time.Minute - time.Second)
				return jsonReply(code, fmt.Sprintf(`{"x":{"errorcode":%d,"errortext":"no"}}`, code))
			})

			c := f.client(t)
			c.limiter = fixed(1.0/3600, tries)
			_, err := c.ListZones(t.Context())
			require.Error(t, err)
			calls, seen := f.recorded(), map[string]bool{}
			require.Len(t, calls, tries)
			for _, c := range calls {
				require.Equal(t, signatureOf(c.Form, testSecretKey), c.Form.Get("signature"))
				seen[c.Form.Get("expires")] = true
			}

			require.Len(t, seen, tries, "each try must have its own expiry")
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Minute)
			_, err = c.ListZones(ctx)
			cancel()
			require.ErrorContains(t, err, "not sent: would have to wait", "each try takes a token")
		}
	})
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()

	// The port refuses connections. No other process can listen on it during the test, because a connection uses it.
	taken, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	c, err := NewClient(&Config{
		APIURL:    "http://" + taken.LocalAddr().String() + apiPath,
		APIKey:    testAPIKey,
		SecretKey: testSecretKey,
	}, WithJitter(noJitter))
	require.NoError(t, err)
	tries := 0
	c.observer = func(Observation) { tries++ }
	_, err = c.Delete(t.Context(), "deleteFirewallRule", "x")
	e := asError(t, err)
	require.Equal(t, KindTransient, e.Kind)
	require.False(t, e.MayHaveHappened, "nothing was sent")
	require.Equal(t, defaultTries, tries, "what was never sent can be sent again")
	require.Contains(t, err.Error(), "connection refused")
	requireNoSecrets(t, err.Error())
}

func TestThrottlingHoldsBackAllCalls(t *testing.T) {
	t.Parallel()
	g := recording(t, "throttle.exceeded") // retry after [29012] ms
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI(func(n int, _ url.Values) reply {
			if n == 1 {
				return replay(g)
			}
			return jsonReply(200, emptyZones)
		})

		c, start := f.client(t), time.Now()
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				_, err := c.ListZones(t.Context())
				if err != nil || time.Since(start) != 29012*time.Millisecond {
					t.Errorf("after %s: %v", time.Since(start), err)
				}
			})
			synctest.Wait()
		}

		require.Len(t, f.recorded(), 1)
		calls.Wait()
		require.Len(t, f.recorded(), 3)
	})
}

func TestThrottledBeyondDeadline(t *testing.T) {
	t.Parallel()
	g := recording(t, "throttle.exceeded-async-command")
	synctest.Test(t, func(t *testing.T) {
		f := always(replay(g))
		c := f.client(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.AssociateIP(ctx, AssociateIPRequest{NetworkID: "n"})
		require.True(t, IsKind(err, KindThrottled), "%v", err)
		require.Contains(t, err.Error(), "28961")
		require.Zero(t, time.Since(start), "a wait that cannot end in time must not begin")
		_, err = c.ListZones(ctx)
		require.True(t, IsKind(err, KindThrottled), "%v", err)
		require.Len(t, f.recorded(), 1, "a later call of the same client does not even try")
	})
}

// A call may end while it waits for the rate limit, for the answer within its context, or for the answer within its
// timeout.
func TestCallsThatEndEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := always(jsonReply(200, emptyZones))
		c := f.client(t)
		c.limiter = fixed(10, 1)
		_, err := c.ListZones(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = c.ListZones(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, f.recorded(), 1)

		block := make(chan struct{})
		defer close(block)
		c = always(func(http.ResponseWriter) { <-block }).client(t)
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = c.DisassociateIP(ctx, "x")
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, asError(t, err).MayHaveHappened)

		start := time.Now()
		_, err = c.DisassociateIP(t.Context(), "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, asError(t, err).MayHaveHappened)
		require.Equal(t, c.timeout, time.Since(start))
	})
}

func TestForeignAnswers(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reply reply
		kind  Kind
		text  string
	}{
		"wrong path (recorded)":    {replay(recording(t, "auth.wrong-path")), KindInvalid, "is api-url right"},
		"user interface, recorded": {replay(recording(t, "auth.root")), KindInvalid, "web page (HTML)"},
		"login by GET, recorded":   {replay(recording(t, "login.by-get")), KindInvalid, "is api-url right"},
		"redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere?apiKey="+testAPIKey)
			w.WriteHeader(http.StatusFound)
		}, KindInvalid, "/elsewhere"},
		"empty":      {jsonReply(200, ""), KindInvalid, "empty answer"},
		"array":      {jsonReply(200, `[]`), KindInvalid, "not JSON"},
		"inner null": {jsonReply(200, `{"listzonesresponse":null}`), KindInvalid, "in place of the API"},
		"xml":        {jsonReply(200, `<?xml version="1.0"?><listzonesresponse/>`), KindInvalid, "XML"},
		"too large": {jsonReply(200, `{"listzonesresponse":{"x":"`+strings.Repeat("y", maxAnswerSize)+`"}}`),
			KindInvalid, "larger than 32 MiB"},
		"foreign object": {jsonReply(200, `{"listzonesresponse":{"error":"x"}}`), KindTransient, "has no zone"},
		"count no array": {jsonReply(200, `{"listzonesresponse":{"count":3}}`), KindTransient, "not complete"},
		"wrong type": {jsonReply(200, `{"listzonesresponse":{"count":1,"zone":"a"}}`), KindTransient,
			"cannot be read"},
	} {
		_, err := always(tc.reply).client(t).ListZones(t.Context())
		e := asError(t, err)
		require.Equal(t, tc.kind, e.Kind, "%s: %v", name, e)
		require.Contains(t, e.Error(), tc.text, name)
		requireNoSecrets(t, e.Error())
	}
}

func TestClockSkewIsNamed(t *testing.T) {
	t.Parallel()
	g := recording(t, "auth.bad-signature")
	for ahead, text := range map[time.Duration]string{
		time.Minute:       "",
		time.Hour:         "behind the server's",
		-20 * time.Minute: "ahead of the server's",
	} {
		f := always(func(w http.ResponseWriter) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			replay(g)(w)
		})
		_, err := f.client(t).ListZones(t.Context())
		require.True(t, IsKind(err, KindAuth), "%v", err)
		require.Equal(t, text != "", strings.Contains(err.Error(), "clock"), err)
		require.ErrorContains(t, err, text)
		require.Len(t, f.recorded(), 1, "bad keys do not get better")
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, emptyZones)
	}))
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}

	ca := file("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	junk := file("junk.pem", []byte("no certificate"))
	for name, tc := range map[string]struct {
		cfg  Config
		want string
	}{
		"untrusted":     {Config{}, "ca-file or ssl-no-verify may be needed"},
		"ca-file":       {Config{CAFile: ca}, ""},
		"CA bundle":     {Config{CABundle: ca}, ""},
		"not verified":  {Config{SSLNoVerify: true}, ""},
		"junk":          {Config{CAFile: junk}, "no PEM certificate"},
		"junk bundle":   {Config{CABundle: junk}, "CA bundle " + junk + " contains no PEM certificate"},
		"absent":        {Config{CAFile: filepath.Join(dir, "absent.pem")}, "ca-file"},
		"absent bundle": {Config{CABundle: filepath.Join(dir, "absent.pem")}, "CA bundle"},
	} {
		tc.cfg.APIURL, tc.cfg.APIKey, tc.cfg.SecretKey = srv.URL+apiPath, testAPIKey, testSecretKey
		c, err := NewClient(&tc.cfg, WithJitter(noJitter))
		if err == nil {
			_, err = c.ListZones(t.Context())
			c.CloseIdleConnections()
		}
		if tc.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tc.want, name)
	}
}

// The error names what is wrong with a certificate. A CA file helps against only one of the faults.
func TestTLSReasons(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"has expired":         x509.CertificateInvalidError{Reason: x509.Expired},
		"another host name":   x509.HostnameError{Certificate: &x509.Certificate{}},
		"does not speak TLS":  tls.RecordHeaderError{},
		"ca-file or ssl-no-v": x509.UnknownAuthorityError{},
	} {
		require.Contains(t, TLSFaultOf(fmt.Errorf("get: %w", err)).text(), want)
	}
	require.Equal(t, TLSFine, TLSFaultOf(io.EOF))
}

func TestAdoptTakesOverKeysAndEndpoint(t *testing.T) {
	t.Parallel()
	echo := func(n int, form url.Values) reply {
		return jsonReply(401,
			`{"listzonesresponse":{"errorcode":401,"errortext":"`+form.Get("apiKey")+` `+testSecretKey+` `+
				form.Get("signature")+`"}}`)
	}

	one, two := newFakeAPI(echo), newFakeAPI(echo)
	c := one.client(t)
	other, err := NewClient(&Config{
		APIURL:    "http://other.test" + apiPath,
		APIKey:    "anotherKey-CCCC=",
		SecretKey: "anotherSecret-DDDD=",
	}, WithTransport(two))
	require.NoError(t, err)
	_, err = c.ListZones(t.Context())
	require.Error(t, err)
	c.Adopt(other)
	require.Equal(t, "http://other.test"+apiPath, c.Endpoint())
	_, err = c.ListZones(t.Context())
	require.True(t, IsKind(err, KindAuth))
	form := two.recorded()[0].Form
	for _, secret := range []string{testAPIKey, testSecretKey, "anotherKey", "anotherSecret", form.Get("signature")} {
		require.NotContains(t, err.Error(), secret, "old and new keys are kept out of texts")
	}

	require.Len(t, one.recorded(), 1)
	require.Equal(t, "anotherKey-CCCC=", form.Get("apiKey"))
	require.Equal(t, signatureOf(form, "anotherSecret-DDDD="), form.Get("signature"))
}

func TestWriteGate(t *testing.T) {
	t.Parallel()
	f := always(jsonReply(200, `{"xresponse":{}}`))
	var inside, entered int
	var closed error
	c := f.client(t, WithWriteGate(func() (func(), error) {
		inside++
		entered++
		return func() { inside-- }, closed
	}))

	_, err := c.ListZones(t.Context())
	require.NoError(t, err)
	require.Zero(t, entered, "reads need no permission")
	_ = c.Call(t.Context(), "deleteFirewallRule", nil, &struct{}{})
	require.Equal(t, 1, entered)
	require.Zero(t, inside)
	closed = errors.New("not the leader")
	err = c.Call(t.Context(), "deleteFirewallRule", nil, &struct{}{})
	require.ErrorContains(t, err, "not sent: not the leader")
	require.True(t, IsKind(err, KindTransient))
	require.Len(t, f.recorded(), 2)
}

func TestTransportErrorsAreClean(t *testing.T) {
	t.Parallel()
	c := clientOf(t, func(r *http.Request) (*http.Response, error) {
		b, _ := io.ReadAll(r.Body)
		return nil, errors.New("proxy said no to http://u:p@host/client/api?" + string(b) + " key " + testSecretKey)
	})
	_, err := c.ListZones(t.Context())
	e := asError(t, err)
	require.Equal(t, KindTransient, e.Kind)
	requireNoSecrets(t, e.Error(), e.Text, e.Err.Error(), fmt.Sprintf("%#v %+v", e, e.Err))
	require.NotContains(t, e.Error(), "u:p@")
}

var metricsTests atomic.Int32

// Each HTTP exchange is counted and reported to the observer.
func TestMetricsAndObserver(t *testing.T) {
	t.Parallel()
	command := fmt.Sprintf("deleteSnapshotForMetricsTest%d", metricsTests.Add(1)) // only this test sends it
	f := newFakeAPI(func(n int, _ url.Values) reply {
		if n == 1 {
			return jsonReply(503, `{"x":{"errorcode":503}}`)
		}
		return jsonReply(200, `{"x":{}}`)
	})

	var seen []Observation
	c := f.client(t, WithObserver(func(o Observation) { seen = append(seen, o) }))
	require.NoError(t, c.Call(t.Context(), command, nil, &struct{}{}))
	require.Equal(t, []Observation{{Code: 503}, {Code: 200}}, seen)
	page := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for _, line := range []string{
		`cloudstack_api_requests_total{code="503",command="` + command + `"} 1`,
		`cloudstack_api_requests_total{code="200",command="` + command + `"} 1`,
		`cloudstack_api_request_duration_seconds_count{command="` + command + `"} 2`,
		"cloudstack_api_retries_total ", "cloudstack_jobs_waiting ",
	} {
		require.Contains(t, page.Body.String(), "\n"+line)
	}
}
