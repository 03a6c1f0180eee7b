// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/testenv/cases"
)

const ours = "csccm-cloud-a1b2c3"

// upstream is a server that makes domains, d1 first, and counts its calls.
func upstream(t *testing.T) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := calls.Add(1)
		w.Header().Add("Set-Cookie", "JSESSIONID=x; Path=/client; Secure; HttpOnly")
		_, _ = fmt.Fprintf(w, `{"createdomainresponse":{"domain":{"id":"d%d"}}}`, n)
	}))
	t.Cleanup(s.Close)
	return s, &calls
}

func serve(t *testing.T, o Options) (p *Proxy, product string) {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Stop()) })
	product, err = p.Listen(t.Context(), Product)
	require.NoError(t, err)
	return p, product
}

func post(ctx context.Context, to string, pairs ...string) (*http.Response, string, error) {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// TestForeignObjectsAreNotReached: the guard answers instead of CloudStack, which does not receive the call.
func TestForeignObjectsAreNotReached(t *testing.T) {
	t.Parallel()
	s, reached := upstream(t)
	g := NewGuard(ours)
	p, to := serve(t, Options{Upstream: s.URL, Guard: g})
	for _, c := range [][]string{
		{"command", "destroyVirtualMachine", "id", "somebody-elses"},
		{"command", "createDomain", "name", "csccm-cloud-hostile"},
		{"command", "updateConfiguration", "name", "x"},
	} {
		resp, body, err := post(t.Context(), to, c...)
		if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "guard") {
			t.Errorf("%v: %v %q %v", c, resp, body, err)
		}
	}

	if reached.Load() != 0 || len(g.Refused()) != 3 {
		t.Errorf("%d calls came through, refused %q", reached.Load(), g.Refused())
	}

	// A read in the body does not hide a deletion in the URL.
	if resp, _, err := post(t.Context(), to+
		"?command=deleteNetwork&id=somebody-elses", "command", "listZones"); err != nil ||
		resp.StatusCode != http.StatusBadRequest {
		t.Errorf("two commands: %v, %v", resp, err)
	}

	// By GET, too.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to+"?command=deleteNetwork&id=somebody-elses",
		nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || reached.Load() != 0 {
		t.Errorf("a deletion by GET: %s", resp.Status)
	}

	assert.Len(t, p.Since(0), 4)
}

// TestFaults: a call that fails is not forwarded. A call whose answer is lost is forwarded, and the guard knows what
// it created.
func TestFaults(t *testing.T) {
	t.Parallel()
	s, reached := upstream(t)
	g := NewGuard(ours)
	p, to := serve(t, Options{Upstream: s.URL, Guard: g})
	resp, body, err := post(t.Context(), to, "command", "createDomain", "name", ours)
	require.NoError(t, err, "%v %q", resp, body)
	assert.Equal(t, "JSESSIONID=x; Path=/client; HttpOnly", resp.Header.Get("Set-Cookie"))
	undo := p.SetFault(func(*Call) Fault { return FailBefore })
	if resp, body, err := post(t.Context(), to, "command", "createDomain", "name", ours); err != nil ||
		resp.StatusCode != 530 ||
		reached.Load() != 1 {
		t.Errorf("a failing call: %v %q %v", resp, body, err)
	}

	undo()
	undo = p.SetFault(func(*Call) Fault { return LoseAnswer })
	if _, _, err := post(t.Context(), to, "command", "createDomain", "name", ours); err == nil ||
		reached.Load() != 2 ||
		g.Judge("deleteDomain", url.Values{"id": {"d2"}}) != nil {
		t.Errorf("a lost answer: %v, %d calls", err, reached.Load())
	}

	undo()
	var crashed atomic.Int32
	at := ""
	defer p.SetFault(CrashAt(2, false, func(command string) { at = command; crashed.Add(1) }))()
	for _, c := range []struct {
		command string
		cut     bool
	}{{"createDomain", false}, {"listZones", false}, {"createDomain", true}, {"listZones", true}} {
		if _, _, err := post(t.Context(), to, "command", c.command, "name", ours); (err != nil) != c.cut {
			t.Errorf("%s: %v, cut is to be %v", c.command, err, c.cut)
		}
	}

	if crashed.Load() != 1 || at != "createDomain" || reached.Load() != 5 {
		t.Errorf("%d crashes at %q, %d calls came through", crashed.Load(), at, reached.Load())
	}
}

const (
	run      = "csccm-cloud-a1b2c3"
	domain   = "d0000000-0000-4000-8000-000000000001"
	network  = "d0000000-0000-4000-8000-000000000002"
	address  = "d0000000-0000-4000-8000-000000000003"
	vm       = "d0000000-0000-4000-8000-000000000004"
	nic      = "d0000000-0000-4000-8000-000000000005"
	rule1    = "d0000000-0000-4000-8000-000000000006"
	foreign  = "f0000000-0000-4000-8000-000000000001"
	foreign2 = "f0000000-0000-4000-8000-000000000002"
)

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

// learned returns a guard that has seen the answers of a run.
func learned(t *testing.T) *Guard {
	t.Helper()
	g := NewGuard(run)
	for _, a := range [][2]string{
		{"createDomain",
			`{"createdomainresponse":{"domain":{"id":"` + domain + `","parentdomainid":"` + foreign +
				`","owner":{"id":"` + foreign + `"}}}}`},
		{"createNetwork", `{"createnetworkresponse":{"network":{"id":"` + network + `","domainid":"` + domain + `"}}}`},
		{"associateIpAddress", `{"associateipaddressresponse":{"id":"` + address + `","jobid":"x"}}`},
		{"deployVirtualMachine", `{"deployvirtualmachineresponse":{"id":"` + vm + `","jobid":"x"}}`},
		{"listVirtualMachines",
			`{"listvirtualmachinesresponse":{"count":2,"virtualmachine":[{"id":"` + vm + `","domainid":"` + domain +
				`","nic":[{"id":"` + nic + `","networkid":"` + network + `"}]},` +
				`{"id":"` + foreign2 + `","domainid":"` + foreign + `","nic":[{"id":"` + foreign + `","networkid":"` +
				foreign + `"}]}]}}`},
		{"listLoadBalancerRules",
			`{"listloadbalancerrulesresponse":{"count":1,"loadbalancerrule":[{"id":"` + rule1 + `","publicipid":"` +
				address + `"}]}}`},
	} {
		var answer any
		require.NoError(t, json.Unmarshal([]byte(a[1]), &answer))
		g.Learn(a[0], answer)
	}

	return g
}

// TestGuardRefusesForeignObjects makes calls that a bug in the suite or in the product could cause.
func TestGuardRefusesForeignObjects(t *testing.T) {
	named := strings.NewReplacer("$run", run, "$network", network, "$address", address, "$vm", vm, "$nic", nic,
		"$rule1", rule1, "$foreign2", foreign2, "$foreign", foreign)
	type call struct{ Call, Refused string }
	cases.Run(t, "testdata/guard.yaml", func(t *testing.T, _ string, c call) {
		command, query, _ := strings.Cut(named.Replace(c.Call), "?")
		params, err := url.ParseQuery(query)
		require.NoError(t, err)

		g := learned(t)
		err = g.Judge(command, params)
		if c.Refused == "" {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, named.Replace(c.Refused))
		require.Len(t, g.Refused(), 1)
	})
}

// TestGuardOfAPlainUser: a run without an account of its own creates objects with its prefix in the user's account, and
// changes nothing else there.
func TestGuardOfAPlainUser(t *testing.T) {
	t.Parallel()
	g := NewGuard(run)
	g.Home("k8s", foreign)
	require.NoError(t, g.Judge("createNetwork", values("name", run+"-net", "account", "k8s", "domainid", foreign)))
	if g.Judge("createNetwork", values("name", "other", "account", "k8s", "domainid", foreign)) == nil {
		t.Error("a name without the prefix passes")
	}

	if g.Judge("createNetwork", values("name", run+"-net", "account", "other", "domainid", foreign)) == nil {
		t.Error("another account passes")
	}

	// Objects that were in the account before do not belong to the run.
	var list any
	require.NoError(t,
		json.Unmarshal([]byte(`{"x":{"network":[{"id":"`+foreign2+`","domainid":"`+foreign+`","account":"k8s"}]}}`),
			&list))
	g.Learn("listNetworks", list)
	if g.Judge("deleteNetwork", values("id", foreign2)) == nil {
		t.Error("a network that was there before may be deleted")
	}
}
