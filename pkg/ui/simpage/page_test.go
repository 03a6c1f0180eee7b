// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/server"
)

// Canaries: secrets that no response of the page may hold.
const (
	canaryKey      = "canary-api-key-51c0e6"
	canarySecret   = "canary-secret-key-9d7a"
	canaryPassword = "canary-password-77ab1"
	canaryUserData = "Y2FuYXJ5LXVzZXJkYXRh"
	canaryPrivate  = "canary-private-key-3f2"
)

// env is a simulator behind HTTP, its page, and a browser that has entered.
type env struct {
	sim     *simulator.Simulator
	api     *httptest.Server
	client  *cloudstack.Client
	base    string
	browser *http.Client
}

func newEnv(t *testing.T) *env {
	t.Helper()
	world := simulator.ExampleWorld()
	for i := range world.Accounts {
		for j := range world.Accounts[i].Users {
			u := &world.Accounts[i].Users[j]
			u.Password = canaryPassword
			if u.Name == "k8s-owner" {
				u.APIKey, u.SecretKey = canaryKey, canarySecret
			}
		}
	}
	sim, err := simulator.New(simulator.Options{World: world})
	require.NoError(t, err)
	e := &env{sim: sim, api: httptest.NewServer(sim.Handler())}
	t.Cleanup(e.api.Close)
	t.Cleanup(sim.Close)
	config := cloudconfig.Default()
	config.APIURL, config.APIKey, config.SecretKey, config.RateLimit = e.api.URL+"/client/api", canaryKey, canarySecret, 0
	e.client, err = cloudstack.NewClient(&config)
	require.NoError(t, err)
	t.Cleanup(e.client.CloseIdleConnections)

	page := New(sim)
	s, err := server.Listen(t.Context(), server.Options{
		Source: page, Actions: page, Interval: time.Millisecond, Files: fstest.MapFS{"index.html": {Data: []byte("page")}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	u, err := url.Parse(s.URL())
	require.NoError(t, err)
	e.base = "http://" + u.Host
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	e.browser = &http.Client{Jar: jar, Transport: &http.Transport{}}
	t.Cleanup(e.browser.CloseIdleConnections)
	require.Equal(t, http.StatusOK, e.send(t, http.MethodGet, s.URL(), ""))
	return e
}

// send returns the status of a request.
func (e *env) send(t *testing.T, method, address, body string) int {
	t.Helper()
	status, _ := e.exchange(t, method, address, body)
	return status
}

func (e *env) exchange(t *testing.T, method, address, body string) (int, string) {
	t.Helper()
	if !strings.HasPrefix(address, "http") {
		address = e.base + address
	}
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	require.NoError(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", e.base)
	}
	resp, err := e.browser.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// eventually returns the first snapshot for which the condition is met.
func (e *env) eventually(t *testing.T, what string, met func(model.Snapshot) bool) model.Snapshot {
	t.Helper()
	var s model.Snapshot
	require.Eventually(t, func() bool {
		status, text := e.exchange(t, http.MethodGet, "/api/snapshot", "")
		return status == http.StatusOK && json.Unmarshal([]byte(text), &s) == nil && met(s)
	}, time.Minute, time.Millisecond, what)
	return s
}

func enabled(s model.Snapshot, name string) bool {
	for _, f := range s.Faults {
		if f.Name == name {
			return f.Enabled
		}
	}
	return false
}

// TestFaultByClick: a fault that is switched on at the page makes a real call fail, until it is switched off.
func TestFaultByClick(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	list := func() error {
		_, err := e.client.ListNetworks(t.Context(), cloudstack.NetworkQuery{})
		return err
	}
	require.NoError(t, list())
	require.Equal(t, http.StatusNoContent, e.send(t, http.MethodPost, "/api/faults/error", `{"enabled":true}`))
	require.ErrorContains(t, list(), "530")
	s := e.eventually(t, "the failure is on the time line", func(s model.Snapshot) bool { return enabled(s, "error") && s.Timeline[0].Warning })
	assert.Equal(t, "k8s-owner refused with 530", s.Timeline[0].Caller+" "+s.Timeline[0].Message)
	require.Equal(t, http.StatusNoContent, e.send(t, http.MethodPost, "/api/faults/error", `{"enabled":true}`), "twice is once")
	require.Len(t, e.sim.Faults(), 1)
	require.Equal(t, http.StatusNoContent, e.send(t, http.MethodPost, "/api/faults/error", `{"enabled":false}`))
	require.NoError(t, list())

	// A fault that was armed elsewhere is shown, and can only be switched off.
	f, err := simulator.ParseFault("listNetworks:error:code=531")
	require.NoError(t, err)
	name := armedPrefix + "3"
	require.Equal(t, 3, e.sim.Arm(f))
	require.ErrorContains(t, list(), "531")
	e.eventually(t, "the other fault is shown", func(s model.Snapshot) bool { return enabled(s, name) })
	require.Equal(t, http.StatusBadRequest, e.send(t, http.MethodPost, "/api/faults/"+name, `{"enabled":true}`))
	require.Equal(t, http.StatusNoContent, e.send(t, http.MethodPost, "/api/faults/"+name, `{"enabled":false}`))
	require.NoError(t, list())
	for _, unknown := range []string{name, "nothing", armedPrefix + "0", armedPrefix + "x"} {
		require.Equal(t, http.StatusNotFound, e.send(t, http.MethodPost, "/api/faults/"+unknown, `{"enabled":false}`), unknown)
	}
}

func TestEverySwitchWorks(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := New(e.sim)
	for _, s := range switches {
		require.NoError(t, p.SetFault(t.Context(), s.name, "", true), s.name)
		shown, err := p.Snapshot(t.Context())
		require.NoError(t, err)
		require.True(t, enabled(shown, s.name), s.name)
		require.Len(t, shown.Faults, len(switches), "the page's own faults are not shown twice")
		require.NoError(t, p.SetFault(t.Context(), s.name, "", false))
	}
	require.Empty(t, e.sim.Faults())
	require.ErrorContains(t, p.SetSpeed(t.Context(), 0.0001), "between 0.01 and 100")
	// What can hit only once is off again afterwards.
	require.NoError(t, p.SetFault(t.Context(), "restart", "", true))
	_, err := e.client.ListZones(t.Context())
	require.NoError(t, err)
	shown, err := p.Snapshot(t.Context())
	require.NoError(t, err)
	require.False(t, enabled(shown, "restart"))
}

// TestNoSecrets: keys, passwords and user data went through the simulator, and are in no response of the page.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, form := range []url.Values{
		{"command": {"login"}, "username": {"admin"}, "password": {canaryPassword}},
		{"command": {"login"}, "username": {"admin"}, "password": {canaryPassword + "wrong"}},
		{"command": {"listZones"}, "apikey": {canaryKey}, "signature": {canarySecret}},
		{"command": {"deployVirtualMachine"}, "apikey": {canaryKey}, "userdata": {canaryUserData}, "password": {canaryPassword}},
		{"command": {"uploadSslCert"}, "apikey": {canaryKey}, "privatekey": {canaryPrivate}},
	} {
		form.Set("response", "json")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.api.URL+"/client/api", strings.NewReader(form.Encode()))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	e.eventually(t, "all calls are on the time line", func(s model.Snapshot) bool { return len(s.Timeline) == 5 })
	_, snapshot := e.exchange(t, http.MethodGet, "/api/snapshot", "")
	_, page := e.exchange(t, http.MethodGet, "/", "")
	_, refused := e.exchange(t, http.MethodPost, "/api/faults/"+canaryKey[:6], `{"enabled":true}`)
	for _, canary := range []string{canaryKey, canarySecret, canaryPassword, canaryUserData, canaryPrivate} {
		for _, text := range []string{snapshot, page, refused} {
			assert.NotContains(t, text, canary)
		}
	}
}
