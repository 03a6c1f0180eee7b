// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// login starts a session and returns a function that calls with it.
func (h *env) login(user, password, domain string) (answer, func(command string, pairs ...string) answer) {
	h.t.Helper()
	q := url.Values{"command": {"login"}, "username": {user}, "password": {password}, "response": {"json"}}
	if domain != "" {
		q.Set("domain", domain)
	}
	resp, err := http.Post(h.url, "application/x-www-form-urlencoded", strings.NewReader(q.Encode()))
	require.NoError(h.t, err)
	cookies := resp.Cookies()
	a := decode(h.t, resp)
	return a, func(command string, pairs ...string) answer {
		h.t.Helper()
		q := url.Values{"command": {command}, "response": {"json"}, "sessionkey": {a.str("sessionkey")}}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"?"+q.Encode(), nil)
		require.NoError(h.t, err)
		for _, c := range cookies {
			req.AddCookie(c)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(h.t, err)
		return decode(h.t, resp)
	}
}

// obj returns the one object inside an answer.
func (h *env) obj(a answer, name string) map[string]any {
	h.t.Helper()
	h.ok(a)
	m, ok := a.body[name].(map[string]any)
	require.True(h.t, ok, a.raw)
	return m
}

// tenant makes a domain with an account whose user has keys; the names are those of the user for call.
func (h *env) tenant(domain, account string, pairs ...string) (domainID, accountID, userID string) {
	h.t.Helper()
	domains := h.ok(h.root("listDomains", "name", domain)).items("domain")
	if len(domains) == 0 {
		domains = append(domains, h.obj(h.root("createDomain", "name", domain), "domain"))
	}
	domainID = id(domains[0])
	args := append([]string{
		"username", account, "password", "pw", "firstname", "F", "lastname", "L", "email", "a@b.c", "domainid", domainID, "accounttype", "0",
	}, pairs...)
	a := h.obj(h.root("createAccount", args...), "account")
	userID = id(a["user"].([]any)[0].(map[string]any))
	h.ok(h.root("registerUserKeys", "id", userID))
	return domainID, id(a), userID
}

// TestSession has what the recorded cases login.* and logout.ok lack.
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
	require.Equal(t, http.StatusMethodNotAllowed, h.get(h.url+"?command=login&username=admin&password=password").status)
}

// TestBootstrap makes role, account, user and keys as an installer does, as an admin.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.play(`
		admin createRole name=ccm type=User > role
		admin createRolePermission roleid={role} rule=listZones permission=allow
		+ rule=listApis
		+ rule=listVirtual*
		+ rule=* permission=deny
		admin createRole name=clone roleid={role} > clone
		admin listRolePermissions roleid={clone} => count 4
		admin createAccount username=kubeadmin password=p firstname=f lastname=l email=e@x roleid={role} => name=kubeadmin > user.0.id=user
		admin getUserKeys id={user} => apikey=-
		admin registerUserKeys id={user} > apikey=key

		kubeadmin listZones
		kubeadmin listApis name=listZones => count 1
		kubeadmin listApis => name=listApis
		kubeadmin createLoadBalancerRule => 432/9999 The API [createLoadBalancerRule]
		admin deleteRole id={role} => 531/4365 role in use
	`)
	require.Len(t, h.vars["key"], 86)
	// Keys die with the next registration.
	old := h.signed("kubeadmin", "listZones")
	h.play("admin registerUserKeys id={user}")
	require.Equal(t, 401, h.get(h.url+"?"+old.Encode()).status)
	h.play("kubeadmin listZones")
}

// TestProjectOfKubernetesService: the role that CloudStack gives to clusters of a project denies what upstream calls.
func TestProjectOfKubernetesService(t *testing.T) {
	t.Parallel()
	w := ExampleWorld()
	w.Accounts = append(w.Accounts, Account{Name: "kubeadmin-p", Role: store.CKSProjectRole, Users: []User{{Name: "cks"}}})
	w.Projects = []Project{{Name: "p1", Owner: "k8s", Members: []string{"kubeadmin-p"}}}
	h := start(t, Options{World: w})
	p := h.first(h.call("k8s-owner", "listProjects"), "project")
	h.ok(h.call("cks", "listVirtualMachines", "projectid", id(p)))
	for _, denied := range []string{"listZones", "listTags", "createTags", "listNetworkACLLists", "listVPCs", "listCapabilities", "listApis"} {
		require.Equal(t, 432, h.call("cks", denied).status, denied)
	}
}

func TestIntegrationPort(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.play(`
		root listVirtualMachines listall=true => count 3
		root noSuchCommand => 432/9999 Unknown API command`)
	nothing := h.root("")
	h.fails(nothing, 432, wire.CSGeneric, "Invalid request, no command sent")
	require.Equal(t, "errorresponse", nothing.key)
}
