// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/csccm/csccm/pkg/testenv/recordings"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// klog and the metrics registry keep one goroutine each for the life of the process.
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// The keys have characters that need escaping. The tests search outputs for the keys.
const (
	testAPIKey    = "canaryApiKey_-AAAA~1111+/="
	testSecretKey = "canarySecretKey_-BBBB~2222+/="
	testPassword  = "canaryPassword~*&=CCCC"
)

func recording(t testing.TB, name string) recordings.Recording {
	t.Helper()
	return recordings.Case(t, "../simulator/testdata", name)
}

// call is one request as the fake server has seen it.
type call struct {
	Form   url.Values
	Header http.Header
	URL    string
	Method string
}

// fakeAPI is a server whose answers come from the test. Its clients call it without a socket, so that waiting for an
// answer takes no real time in a synctest bubble.
type fakeAPI struct {
	answer func(n int, form url.Values) reply
	mu     sync.Mutex
	calls  []call
}

// reply writes one answer.
type reply func(w http.ResponseWriter)

func jsonReply(status int, body string) reply {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json;charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// replay answers as the recorded server did.
func replay(g recordings.Recording) reply {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", g.ContentType)
		w.WriteHeader(g.HTTPStatus)
		_, _ = w.Write(g.Body())
	}
}

// newFakeAPI serves answer(n, form) for the n-th call, counted from 1.
func newFakeAPI(answer func(n int, form url.Values) reply) *fakeAPI {
	return &fakeAPI{answer: answer}
}

// always serves the same answer.
func always(r reply) *fakeAPI { return newFakeAPI(func(int, url.Values) reply { return r }) }

// RoundTrip records a call and answers it. If the handler aborts, the connection is cut.
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	out, cut := httptest.NewRecorder(), make(chan bool, 1)
	go func() {
		defer func() { cut <- recover() != nil }()
		f.ServeHTTP(out, r)
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case gone := <-cut:
		if gone {
			return nil, io.ErrUnexpectedEOF
		}
		return out.Result(), nil
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "bad form", http.StatusBadRequest)
		return
	}
	c := call{Form: r.PostForm, Header: r.Header.Clone(), URL: r.URL.RequestURI(), Method: r.Method}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	n := len(f.calls)
	f.mu.Unlock()
	f.answer(n, r.PostForm)(w)
}

// goldenAPI answers every call with one recorded case.
func goldenAPI(t testing.TB, name string) *fakeAPI {
	t.Helper()
	return always(replay(recording(t, name)))
}

func (f *fakeAPI) recorded() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]call(nil), f.calls...)
}

func testConfig() *Config {
	return &Config{
		APIURL:    "http://cloudstack.test" + apiPath,
		APIKey:    testAPIKey,
		SecretKey: testSecretKey,
		Timeout:   time.Minute,
	}
}

// client returns a client of the server that retries without a pause.
func (f *fakeAPI) client(t testing.TB, opts ...Option) *Client {
	t.Helper()
	return clientOf(t, f.RoundTrip, opts...)
}

// clientOf returns a client that retries without a pause.
func clientOf(t testing.TB, send roundTripFunc, opts ...Option) *Client {
	t.Helper()
	c, err := NewClient(testConfig(), append([]Option{WithJitter(noJitter), WithTransport(send)}, opts...)...)
	require.NoError(t, err)
	return c
}

func noJitter(time.Duration) time.Duration { return 0 }

// requireNoSecrets fails when a text holds a secret of the tests, plain or escaped.
func requireNoSecrets(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for _, secret := range []string{testAPIKey, testSecretKey, testPassword} {
			for _, form := range []string{secret, url.QueryEscape(secret), fmt.Sprintf("%q", secret)} {
				require.NotContains(t, text, form)
			}
		}
		require.NotContains(t, strings.ToLower(strings.ReplaceAll(text, "signature="+redacted, "")), "signature=")
	}
}

// asError returns err's *Error.
func asError(t testing.TB, err error) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	return e
}
