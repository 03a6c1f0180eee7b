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

// env is a simulator behind HTTP with a clock that tests move.
type env struct {
	t     *testing.T
	sim   *Simulator
	clock *clocktesting.FakeClock
	url   string
	admin string            // URL of the integration port
	vars  map[string]string // the names that scripts have bound, with their values
	last  answer            // the last answer in a script
	calls map[string]string // the beginnings of calls that scripts have named

	jobTime time.Duration               // how long expect waits for a job
	note    func(line string, a answer) // called for each call of a script and its job; may be nil
}

// start serves the shipped example unless the options contain a world.
func start(t *testing.T, o Options) *env {
	t.Helper()
	if o.World == nil {
		o.World = ExampleWorld()
	}

	h := &env{t: t, jobTime: time.Minute, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
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
	h.calls, h.vars = map[string]string{}, map[string]string{
		"denied":   wire.NoAccessText,
		"internal": wire.InternalErrorText,
		"ROOT":     sim.st.Root().UUID,
		"nowhere":  nowhere,
		"long":     strings.Repeat("n", 256),
		"control":  "a\x01b",
		"tab":      "a\tb",
		"lines":    "a\r\nb",
		"rocket":   "x\U0001F680",
		"ranges60": manyRanges(RouterRanges),
		"ranges61": manyRanges(RouterRanges + 1),
	}

	for name, offering := range offerings {
		for _, o := range sim.st.NetOffs.Rows {
			if o.Spec.Name == offering {
				h.vars[name] = o.UUID
			}
		}
	}

	return h
}

// offerings are network offerings by their names in scripts.
var offerings = map[string]string{
	"isolated":  "DefaultIsolatedNetworkOfferingWithSourceNatService",
	"shared":    "DefaultSharedNetworkOffering",
	"l2":        "DefaultL2NetworkOffering",
	"l2vlan":    "DefaultL2NetworkOfferingVlan",
	"tier":      "DefaultIsolatedNetworkOfferingForVpcNetworks",
	"innertier": "DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB",
}

// answer is a decoded response.
type answer struct {
	status int
	key    string
	body   map[string]any
	header http.Header
	raw    string
}

var plainClient = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// send sends a request without changes. Headers are name, value, name, value ...; unless they say otherwise, a body is
// a form.
func (h *env) send(method, target, body string, headers ...string) answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, target, strings.NewReader(body))
	require.NoError(h.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}

	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}

	resp, err := plainClient.Do(req)
	require.NoError(h.t, err)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	require.NoError(h.t, resp.Body.Close())
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	var outer map[string]map[string]any
	if json.Unmarshal(raw, &outer) == nil {
		for k, v := range outer {
			a.key, a.body = k, v
		}
	}

	return a
}

// cookies returns the cookies that an answer sets, as a browser sends them.
func (a answer) cookies() string {
	var out []string
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		out = append(out, c.Name+"="+c.Value)
	}
	return strings.Join(out, "; ")
}

// form is a call without a signature; pairs are name, value, name, value ...
func form(command string, pairs ...string) url.Values {
	q := url.Values{"command": {command}, "response": {"json"}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q
}

// signed builds the query of a signed request.
func (h *env) signed(user, command string, pairs ...string) url.Values {
	h.t.Helper()
	key, secret, ok := h.sim.Keys(user)
	require.True(h.t, ok, "no keys of user %s", user)
	return sign(form(command, pairs...), key, secret)
}

func sign(q url.Values, key, secret string) url.Values {
	q.Set("apikey", key)
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

func (h *env) get(u string) answer { return h.send(http.MethodGet, u, "") }

// call sends a signed GET.
func (h *env) call(user, command string, pairs ...string) answer {
	h.t.Helper()
	return h.get(h.url + "?" + h.signed(user, command, pairs...).Encode())
}

// root calls through the integration port.
func (h *env) root(command string, pairs ...string) answer {
	h.t.Helper()
	return h.get(h.admin + "?" + form(command, pairs...).Encode())
}

// ok requires that the call succeeds.
func (h *env) ok(a answer) answer {
	h.t.Helper()
	require.Equal(h.t, http.StatusOK, a.status, a.raw)
	return a
}

// fails requires that the call fails.
func (h *env) fails(a answer, code, cs int, text string) {
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

// done requires that the job of an answer succeeds, and returns its result.
func (h *env) done(user string, a answer) map[string]any {
	h.t.Helper()
	h.ok(a)
	h.clock.Step(h.jobTime)
	j := h.ok(h.call(user, "queryAsyncJobResult", "jobid", a.str("jobid")))
	require.EqualValues(h.t, store.JobDone, j.body["jobstatus"], j.raw)
	return j.body["jobresult"].(map[string]any)
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
func (h *env) first(a answer, name string) map[string]any {
	h.t.Helper()
	h.ok(a)
	l := a.items(name)
	require.NotEmpty(h.t, l, a.raw)
	return l[0]
}

const nowhere = "00000000-0000-4000-8000-000000000000" // an id of no object

func id(m map[string]any) string { return m["id"].(string) }

func (h *env) vmID(name string) string    { return h.idOf("vms", name) }
func (h *env) netID(name string) string   { return h.idOf("networks", name) }
func (h *env) ipID(address string) string { return h.idOf("ips", address) }
