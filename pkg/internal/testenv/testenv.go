// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testenv is the environment of Go tests: a simulated CloudStack that is called without a socket, and a fake
// API server. It runs inside a synctest bubble, where waiting takes no time.
package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// URL is the address of the API. Nothing listens there: only the transport of a Cloud reaches the simulator.
const URL = "http://cloudstack.test/client/api"

// Cloud is a simulated CloudStack.
type Cloud struct {
	*simulator.Simulator
	t testing.TB
}

var worlds sync.Map // text of a world -> function that returns the parsed world; the simulator does not change it

// New starts a simulator of a world in YAML.
func New(t testing.TB, world string, o simulator.Options) *Cloud {
	t.Helper()
	parse, _ := worlds.LoadOrStore(world, sync.OnceValues(func() (*simulator.World, error) {
		return simulator.LoadWorld(strings.NewReader(world))
	}))
	var err error
	o.World, err = parse.(func() (*simulator.World, error))() //nolint:forcetypeassert // nothing else is stored
	require.NoError(t, err)
	sim, err := simulator.New(o)
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	return &Cloud{Simulator: sim, t: t}
}

// Config returns the configuration of a client without a rate limit.
func (c *Cloud) Config(key, secret string) *cloudstack.Config {
	cfg := cloudconfig.Default()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey, cfg.RateLimit = URL, key, secret, 0
	return &cfg
}

// Client returns a client that does not wait between retries.
func (c *Cloud) Client(key, secret string, options ...cloudstack.Option) *cloudstack.Client {
	c.t.Helper()
	client, err := cloudstack.NewClient(c.Config(key, secret),
		append([]cloudstack.Option{c.Option(), NoJitter}, options...)...)
	require.NoError(c.t, err)
	return client
}

// NoJitter removes the waits between retries of a client.
var NoJitter = cloudstack.WithJitter(func(time.Duration) time.Duration { return 0 })

// Option connects a client with the simulator.
func (c *Cloud) Option() cloudstack.Option { return cloudstack.WithTransport(c.Transport(nil)) }

// Around may replace a request or its answer. send sends the request.
type Around func(r *http.Request, form url.Values, send func() (*http.Response, error)) (*http.Response, error)

// Transport returns a transport that passes requests to the simulator's handler; around may be nil.
func (c *Cloud) Transport(around Around) http.RoundTripper { return &transport{c.Handler(), around} }

type transport struct {
	handler http.Handler
	around  Around
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}

	if !strings.HasPrefix(URL, "http://"+r.URL.Host+"/") {
		return nil, fmt.Errorf("no server at %s", r.URL.Host)
	}

	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}

	send := func() (*http.Response, error) { return serve(t.handler, r, string(body)) }
	if t.around == nil {
		return send()
	}

	form, err := url.ParseQuery(r.URL.RawQuery + "&" + string(body))
	if err != nil {
		return nil, err
	}

	return t.around(r, form, send)
}

// serve calls the handler. If the handler aborts, the connection is cut, as with a real server.
func serve(h http.Handler, r *http.Request, body string) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // a handler panics with that very value
				panic(p)
			}
			resp, err = nil, errors.New("the connection was cut")
		}
	}()

	in := r.WithContext(r.Context())
	in.Body, in.RequestURI = io.NopCloser(strings.NewReader(body)), r.URL.RequestURI()
	out := httptest.NewRecorder()
	h.ServeHTTP(out, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}

	resp = out.Result()
	resp.ContentLength = int64(out.Body.Len()) // lets the client allocate its buffer at once
	return resp, nil
}

// Admin makes a call as a root admin and waits until its job has ended. It fails the test if the call fails.
func (c *Cloud) Admin(command string, pairs ...string) map[string]any {
	c.t.Helper()
	result, err := c.ByAdmin(command, pairs...)
	require.NoError(c.t, err)
	return result
}

// ByAdmin makes a call as a root admin, and waits until its job has ended.
func (c *Cloud) ByAdmin(command string, pairs ...string) (result map[string]any, err error) {
	form := url.Values{"command": {command}, "response": {"json"}}
	for pair := range slices.Chunk(pairs, 2) {
		form.Set(pair[0], pair[1])
	}
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, URL+"?"+form.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	out, err := serve(c.IntegrationHandler(), request, "")
	if err != nil {
		return nil, err
	}
	text, _ := io.ReadAll(out.Body)
	_ = out.Body.Close()
	var answer map[string]map[string]any
	if err := json.Unmarshal(text, &answer); err != nil || out.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %v: %d %s", command, pairs, out.StatusCode, text)
	}
	for _, r := range answer {
		result = r
	}

	job, submitted := result["jobid"].(string)
	if !submitted || command == Polls[0] {
		return result, nil
	}
	for {
		j, err := c.ByAdmin(Polls[0], "jobid", job)
		switch {
		case err != nil:
			return result, err
		case j["jobstatus"] == 1.0:
			return result, nil
		case j["jobstatus"] != 0.0:
			return result, fmt.Errorf("%s: %v", command, j)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Polls are the commands that query jobs.
var Polls = []string{"queryAsyncJobResult", "listAsyncJobs"}

// Calls returns the commands that a user sent since the last reset of the ledger, without polls.
func (c *Cloud) Calls(user string) []string {
	var out []string
	for _, call := range c.Ledger().Find("*", user) {
		if !slices.Contains(Polls, call.Command) {
			out = append(out, call.Command)
		}
	}
	return out
}

// Kube returns a fake clientset.
func Kube(objects ...runtime.Object) *fake.Clientset { return fakekube.New(objects...).Clientset }
