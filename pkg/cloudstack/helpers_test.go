// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"encoding/json"
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
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// klog and the metrics registry keep one goroutine each for the life of the process.
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// Keys with characters that escaping touches; the canary tests look for them.
const (
	testAPIKey    = "canaryApiKey_-AAAA~1111+/="
	testSecretKey = "canarySecretKey_-BBBB~2222+/="
	testPassword  = "canaryPassword~*&=CCCC"
)

// goldenCase is one recorded exchange with a real management server.
type goldenCase struct {
	Case       string            `json:"case"`
	Command    string            `json:"command"`
	Params     map[string]any    `json:"params"`
	HTTPStatus int               `json:"httpStatus"`
	Type       string            `json:"contentType"`
	Response   json.RawMessage   `json:"response"`
	Headers    map[string]string `json:"headers"`
}

func golden(t testing.TB, name string) goldenCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
	require.NoError(t, err)
	var g goldenCase
	require.NoError(t, json.Unmarshal(b, &g))
	return g
}

// body is the answer as it was on the wire.
func (g goldenCase) body() []byte {
	var text string
	if json.Unmarshal(g.Response, &text) == nil {
		return []byte(text)
	}
	return g.Response
}

// call is one request as the fake server has seen it.
type call struct {
	Form    url.Values
	Header  http.Header
	URL     string
	Method  string
	Cookies map[string]string
}

// fakeAPI is an HTTP server whose answers the test gives.
type fakeAPI struct {
	*httptest.Server
	memory *memoryListener // nil where the network is a real one
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

func (g goldenCase) reply() reply {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", g.Type)
		w.WriteHeader(g.HTTPStatus)
		_, _ = w.Write(g.body())
	}
}

// newFakeAPI serves answer(n, form) for the n-th call, counted from 1.
func newFakeAPI(t testing.TB, answer func(n int, form url.Values) reply) *fakeAPI {
	t.Helper()
	f := &fakeAPI{}
	f.Server = httptest.NewServer(f.serve(answer))
	t.Cleanup(f.Close)
	return f
}

// newMemoryAPI is newFakeAPI on a network in memory: in the bubble of a synctest, who waits for it lets the time go on.
func newMemoryAPI(t testing.TB, answer func(n int, form url.Values) reply) *fakeAPI {
	t.Helper()
	f := &fakeAPI{memory: &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}}
	f.Server = &httptest.Server{URL: "http://127.0.0.1", Config: &http.Server{Handler: f.serve(answer), ReadHeaderTimeout: time.Hour}}
	go func() { _ = f.Config.Serve(f.memory) }()
	t.Cleanup(func() { _ = f.Config.Close() })
	return f
}

// memoryListener accepts the connections that are dialled to it.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve notes each call and answers it.
func (f *fakeAPI) serve(answer func(n int, form url.Values) reply) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "bad form", http.StatusBadRequest)
			return
		}
		c := call{Form: r.PostForm, Header: r.Header.Clone(), URL: r.URL.String(), Method: r.Method, Cookies: map[string]string{}}
		for _, ck := range r.Cookies() {
			c.Cookies[ck.Name] = ck.Value
		}
		f.mu.Lock()
		f.calls = append(f.calls, c)
		n := len(f.calls)
		f.mu.Unlock()
		answer(n, r.PostForm)(w)
	})
}

// goldenAPI answers every call with one recorded case.
func goldenAPI(t testing.TB, name string) *fakeAPI {
	t.Helper()
	g := golden(t, name)
	return newFakeAPI(t, func(int, url.Values) reply { return g.reply() })
}

func (f *fakeAPI) recorded() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]call(nil), f.calls...)
}

func (f *fakeAPI) count(command string) int {
	n := 0
	for _, c := range f.recorded() {
		if c.Form.Get("command") == command {
			n++
		}
	}
	return n
}

func (f *fakeAPI) config() *Config {
	return &Config{APIURL: f.URL + apiPath, APIKey: testAPIKey, SecretKey: testSecretKey, Timeout: time.Minute}
}

// client makes a client of the server that never waits between tries.
func (f *fakeAPI) client(t testing.TB, opts ...Option) *Client {
	t.Helper()
	return f.clientOf(t, f.config(), opts...)
}

func (f *fakeAPI) clientOf(t testing.TB, cfg *Config, opts ...Option) *Client {
	t.Helper()
	c, err := NewClient(cfg, append([]Option{WithJitter(noJitter)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	if f.memory != nil {
		way, ok := c.access.Load().base.(*http.Transport)
		require.True(t, ok)
		way.DialContext = f.memory.dial
	}
	return c
}

func noJitter(time.Duration) time.Duration { return 0 }

// requireNoSecrets fails when a text holds a secret of the tests, plain or escaped.
func requireNoSecrets(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for _, secret := range []string{testAPIKey, testSecretKey, testPassword, "canary-session-key"} {
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
