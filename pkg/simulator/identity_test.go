// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// login starts a session and returns a function that calls with it.
func (h *env) login(user, password, domain string) (answer, func(command string, pairs ...string) answer) {
	h.t.Helper()
	q := form("login", "username", user, "password", password)
	if domain != "" {
		q.Set("domain", domain)
	}
	a := h.send(http.MethodPost, h.url, q.Encode())
	return a, func(command string, pairs ...string) answer {
		h.t.Helper()
		q := form(command, append(pairs, "sessionkey", a.str("sessionkey"))...)
		return h.send(http.MethodGet, h.url+"?"+q.Encode(), "", "Cookie", a.cookies())
	}
}

// obj returns the only object in an answer.
func (h *env) obj(a answer, name string) map[string]any {
	h.t.Helper()
	h.ok(a)
	m, ok := a.body[name].(map[string]any)
	require.True(h.t, ok, a.raw)
	return m
}

// tenant creates an account whose user has keys, and its domain if the domain does not exist.
func (h *env) tenant(domain, account string, pairs ...string) (domainID, accountID, userID string) {
	h.t.Helper()
	domains := h.ok(h.root("listDomains", "name", domain)).items("domain")
	if len(domains) == 0 {
		domains = append(domains, h.obj(h.root("createDomain", "name", domain), "domain"))
	}
	domainID = id(domains[0])
	args := append([]string{
		"username", account, "password", "pw", "firstname", "F", "lastname", "L", "email", "a@b.c", "domainid",
		domainID, "accounttype", "0",
	}, pairs...)
	a := h.obj(h.root("createAccount", args...), "account")
	userID = id(a["user"].([]any)[0].(map[string]any))
	h.ok(h.root("registerUserKeys", "id", userID))
	return domainID, id(a), userID
}

// TestSession has the cases that the recordings login.* and logout.ok lack.
func TestSession(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	_, call := h.login("admin", "password", "/")
	h.fails(call("noSuchCommand"), 432, wire.CSGeneric, "Unknown API command: noSuchCommand")
	require.Equal(t, "success", h.ok(call("logout")).str("description"))
	h.fails(call("listZones"), 401, 0, wire.AuthText)
	_, call = h.login("admin", "password", "")
	h.ok(call("listRoles"))
	h.clock.Step(30*time.Minute + 1)
	h.fails(call("listZones"), 401, 0, wire.AuthText)
	_, call = h.login("admin", "password", "")
	h.ok(call("listRoles"))
	h.sim.Restart(0)
	h.fails(call("listZones"), 401, 0, wire.AuthText)
	require.Equal(t, http.StatusMethodNotAllowed, h.get(h.url+"?command=login&username=admin&password=password").status)
}
