// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// world starts a simulator with a clock that tests move.
type harness struct {
	t     *testing.T
	sim   *Simulator
	clock *clocktesting.FakeClock
	url   string
	admin string // URL of the integration port
}

// start serves the shipped example unless the options name a world.
func start(t *testing.T, o Options) *harness {
	t.Helper()
	if o.World == nil {
		o.World = ExampleWorld()
	}
	h := &harness{t: t, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	if o.Clock == nil {
		o.Clock = h.clock
	}
	sim, err := New(o)
	require.NoError(t, err)
	h.sim = sim
	srv, integration := httptest.NewServer(sim.Handler()), httptest.NewServer(sim.IntegrationHandler())
	t.Cleanup(srv.Close)
	t.Cleanup(integration.Close)
	h.url, h.admin = srv.URL+"/client/api", integration.URL+"/client/api"
	return h
}

// answer is a decoded response.
type answer struct {
	status int
	key    string
	body   map[string]any
	header http.Header
	raw    string
}

func decode(t *testing.T, resp *http.Response) answer {
	t.Helper()
	defer func() { require.NoError(t, resp.Body.Close()) }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	var outer map[string]map[string]any
	if json.Unmarshal(raw, &outer) == nil {
		for k, v := range outer {
			a.key, a.body = k, v
		}
	}
	return a
}

// signed builds the query of a signed request; pairs are name, value, name, value ...
func (h *harness) signed(user, command string, pairs ...string) url.Values {
	h.t.Helper()
	key, secret, ok := h.sim.Keys(user)
	require.True(h.t, ok, "no keys of user %s", user)
	q := url.Values{"command": {command}, "response": {"json"}, "apikey": {key}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	q.Set("signature", wire.Sign(secret, toParams(q)))
	return q
}

func toParams(q url.Values) []wire.Param {
	var ps []wire.Param
	for k, vs := range q {
		ps = append(ps, wire.Param{Name: k, Value: vs[0]})
	}
	return ps
}

// call sends a signed GET.
func (h *harness) call(user, command string, pairs ...string) answer {
	h.t.Helper()
	return h.get(h.url + "?" + h.signed(user, command, pairs...).Encode())
}

// post sends a signed POST.
func (h *harness) post(user, command string, pairs ...string) answer {
	h.t.Helper()
	resp, err := http.Post(h.url, "application/x-www-form-urlencoded", strings.NewReader(h.signed(user, command, pairs...).Encode()))
	require.NoError(h.t, err)
	return decode(h.t, resp)
}

// root calls through the integration port.
func (h *harness) root(command string, pairs ...string) answer {
	h.t.Helper()
	q := url.Values{"command": {command}, "response": {"json"}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return h.get(h.admin + "?" + q.Encode())
}

func (h *harness) get(u string) answer {
	h.t.Helper()
	resp, err := http.Get(u)
	require.NoError(h.t, err)
	return decode(h.t, resp)
}

// ok demands success.
func (h *harness) ok(a answer) answer {
	h.t.Helper()
	require.Equal(h.t, http.StatusOK, a.status, a.raw)
	return a
}

// fails demands an error.
func (h *harness) fails(a answer, code, cs int, text string) {
	h.t.Helper()
	require.Equal(h.t, code, a.status, a.raw)
	require.EqualValues(h.t, code, a.body["errorcode"])
	if cs == 0 {
		require.NotContains(h.t, a.body, "cserrorcode")
	} else {
		require.EqualValues(h.t, cs, a.body["cserrorcode"])
	}
	require.Contains(h.t, a.body["errortext"], text)
}

// job waits for the job of an answer and returns its result object.
func (h *harness) job(user string, a answer) map[string]any {
	h.t.Helper()
	h.ok(a)
	h.clock.Step(time.Minute)
	j := h.ok(h.call(user, "queryAsyncJobResult", "jobid", a.str("jobid")))
	require.NotEqualValues(h.t, store.JobPending, j.body["jobstatus"], j.raw)
	return j.body
}

// done demands that the job of an answer succeeds.
func (h *harness) done(user string, a answer) map[string]any {
	h.t.Helper()
	j := h.job(user, a)
	require.EqualValues(h.t, store.JobDone, j["jobstatus"], "%v", j["jobresult"])
	return j["jobresult"].(map[string]any)
}

// broken demands that the job of an answer fails.
func (h *harness) broken(user string, a answer, code int, text string) {
	h.t.Helper()
	j := h.job(user, a)
	require.EqualValues(h.t, store.JobFailed, j["jobstatus"])
	require.EqualValues(h.t, code, j["jobresultcode"])
	require.Contains(h.t, j["jobresult"].(map[string]any)["errortext"], text)
}

func (a answer) str(name string) string {
	s, _ := a.body[name].(string)
	return s
}

// items returns the array of a list.
func (a answer) items(name string) []map[string]any {
	var out []map[string]any
	list, _ := a.body[name].([]any)
	for _, v := range list {
		out = append(out, v.(map[string]any))
	}
	return out
}

// first returns the first item of a list.
func (h *harness) first(a answer, name string) map[string]any {
	h.t.Helper()
	h.ok(a)
	l := a.items(name)
	require.NotEmpty(h.t, l, a.raw)
	return l[0]
}

func id(m map[string]any) string { return m["id"].(string) }

// vmID is the id of the VM with a name.
func (h *harness) vmID(name string) string {
	v, ok := h.sim.st.VMs.Find(func(v *store.VM) bool { return v.Name == name })
	require.True(h.t, ok, name)
	return v.UUID
}
