// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simpage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/pkg/ui/server"
)

const canaryPassword = "canary-password-77ab1" // of all users

// env is a simulator with its page and a user of its API.
type env struct {
	*testenv.Cloud
	t           *testing.T
	page        *Page
	key, secret string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	world := strings.ReplaceAll(string(simulator.ExampleYAML()), "password: password", "password: "+canaryPassword)
	e := &env{Cloud: testenv.New(t, world, simulator.Options{}), t: t}
	e.page = New(e.Simulator)
	e.key, e.secret, _ = e.Keys("k8s-owner")
	return e
}

// list makes a call.
func (e *env) list() error {
	_, err := e.Client(e.key, e.secret).ListNetworks(e.t.Context(), cloudstack.NetworkQuery{})
	return err
}

func (e *env) set(name string, enabled bool) error {
	return e.page.SetFault(e.t.Context(), name, "", enabled)
}

func (e *env) shown() model.Snapshot {
	e.t.Helper()
	s, err := e.page.Snapshot(e.t.Context())
	require.NoError(e.t, err)
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

func TestFaults(t *testing.T) {
	e := newEnv(t)
	for _, s := range switches {
		require.NoError(t, e.set(s.name, true), s.name)
		shown := e.shown()
		require.True(t, enabled(shown, s.name), s.name)
		require.Len(t, shown.Faults, len(switches), "the page's own faults are not shown twice")
		require.NoError(t, e.set(s.name, true), "twice is once")
		require.Len(t, e.Faults(), 1)
		require.NoError(t, e.set(s.name, false))
	}
	require.Empty(t, e.Faults())
	require.ErrorContains(t, e.page.SetSpeed(t.Context(), 0.0001), "between 0.01 and 100")

	// A fault that was armed elsewhere is shown, and can only be switched off.
	f, err := simulator.ParseFault("listNetworks:error:code=531")
	require.NoError(t, err)
	name := armedPrefix + strconv.Itoa(e.Arm(f))
	require.ErrorContains(t, e.list(), "531")
	assert.True(t, enabled(e.shown(), name))
	assert.True(t, e.shown().Timeline[0].Warning)
	require.ErrorContains(t, e.set(name, true), "armed elsewhere")
	require.NoError(t, e.set(name, false))
	require.NoError(t, e.list())
	for _, unknown := range []string{name, "nothing", armedPrefix + "0", armedPrefix + "x"} {
		require.ErrorIs(t, e.set(unknown, false), server.ErrUnknown, unknown)
	}

	// A fault that can hit only once is off afterwards.
	require.NoError(t, e.set("restart", true))
	require.NoError(t, e.list())
	require.False(t, enabled(e.shown(), "restart"))
}

// Keys, passwords and user data passed through the simulator. The page must show none of them.
func TestNoSecrets(t *testing.T) {
	e := newEnv(t)
	const userData, private = "Y2FuYXJ5LXVzZXJkYXRh", "canary-private-key-3f2"
	for _, form := range []url.Values{
		{"command": {"login"}, "username": {"admin"}, "password": {canaryPassword}},
		{"command": {"login"}, "username": {"admin"}, "password": {canaryPassword + "wrong"}},
		{"command": {"listZones"}, "apikey": {e.key}, "signature": {e.secret}},
		{"command": {"deployVirtualMachine"}, "apikey": {e.key}, "userdata": {userData}, "password": {canaryPassword}},
		{"command": {"uploadSslCert"}, "apikey": {e.key}, "privatekey": {private}},
	} {
		form.Set("response", "json")
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, testenv.URL,
			strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		e.Handler().ServeHTTP(httptest.NewRecorder(), req)
	}

	s := e.shown()
	require.Len(t, s.Timeline, 5)
	text, err := json.Marshal(s)
	require.NoError(t, err)
	for _, canary := range []string{e.key, e.secret, canaryPassword, userData, private} {
		assert.NotContains(t, string(text), canary)
	}
}
