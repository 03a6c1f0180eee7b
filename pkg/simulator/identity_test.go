// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// login starts a session and returns a function that calls with it.
func (h *harness) login(user, password, domain string) (answer, func(command string, pairs ...string) answer) {
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

func TestSession(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	a, call := h.login("admin", "password", "/")
	h.ok(a)
	require.Equal(t, "1", a.str("type"))
	require.EqualValues(t, 1800, a.body["timeout"])
	h.ok(call("listRoles"))
	h.fails(call("noSuchCommand"), 432, wire.CSGeneric, "Unknown API command: noSuchCommand")
	require.Equal(t, 401, call("listZones", "sessionkey", "wrong").status)
	h.fails(call("listZones"), 401, 0, wire.AuthText) // the session is gone
	_, call = h.login("admin", "password", "")
	require.Equal(t, "success", h.ok(call("logout")).str("description"))
	h.fails(call("listZones"), 401, 0, wire.AuthText)
	_, call = h.login("admin", "password", "")
	h.clock.Step(wire.DefaultSessionTimeout + 1)
	h.fails(call("listZones"), 401, 0, wire.AuthText)

	bad, _ := h.login("admin", "wrong", "")
	h.fails(bad, 531, 0, "Failed to authenticate user admin in domain 1; please provide valid credentials")
	require.Equal(t, http.StatusMethodNotAllowed, h.get(h.url+"?command=login&username=admin&password=password").status)
}

// ccmRules are what a controller's minimal role allows.
var ccmRules = []string{"listZones", "listVirtual*", "listNetworks", "queryAsyncJobResult"}

// TestBootstrap makes role, account, user and keys as an installer does, from an admin's login.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	_, admin := h.login("admin", "password", "")
	role := h.ok(admin("createRole", "name", "ccm", "type", "User")).body["role"].(map[string]any)
	h.fails(admin("createRole", "name", "ccm", "type", "User"), 530, wire.CSGeneric, "Entity already exists ")
	h.fails(admin("createRole", "name", "x", "type", "Bogus"), 530, wire.CSGeneric, "Illegal RoleType name provided")
	for _, rule := range ccmRules {
		h.ok(admin("createRolePermission", "roleid", id(role), "rule", rule, "permission", "allow"))
	}
	h.ok(admin("createRolePermission", "roleid", id(role), "rule", "*", "permission", "deny"))
	h.fails(admin("createRolePermission", "roleid", id(role), "rule", "listZones", "permission", "deny"), 531, wire.CSPermission, "Rule already exists for the role: ccm")
	h.fails(admin("createRolePermission", "roleid", id(role), "rule", "a-b", "permission", "deny"), 431, wire.CSInvalidValue, "invalid rule provided")
	require.Len(t, h.ok(admin("listRolePermissions", "roleid", id(role))).items("rolepermission"), len(ccmRules)+1)
	builtin := h.first(admin("listRoles", "name", "User"), "role")
	h.fails(admin("createRolePermission", "roleid", id(builtin), "rule", "x", "permission", "allow"), 531, wire.CSPermission, "cannot be added for Default roles")

	account := h.ok(admin("createAccount", "username", "kubeadmin", "password", "p", "firstname", "f", "lastname", "l", "email", "e@x", "roleid", id(role))).body["account"].(map[string]any)
	require.Equal(t, "kubeadmin", account["name"])
	u := account["user"].([]any)[0].(map[string]any)
	require.NotContains(t, h.ok(admin("getUserKeys", "id", id(u))).body["userkeys"], "apikey")
	keys := h.ok(admin("registerUserKeys", "id", id(u))).body["userkeys"].(map[string]any)
	require.Len(t, keys["apikey"], 86)
	require.Equal(t, keys["apikey"], h.ok(admin("getUser", "userapikey", keys["apikey"].(string))).body["user"].(map[string]any)["apikey"])

	h.ok(h.call("kubeadmin", "listZones"))
	h.fails(h.call("kubeadmin", "listApis"), 432, wire.CSGeneric, "The API [listApis]")
	h.fails(h.call("kubeadmin", "createLoadBalancerRule"), 432, wire.CSGeneric, "The API [createLoadBalancerRule]")
	h.fails(admin("deleteRole", "id", id(role)), 531, wire.CSPermission, "role in use")

	// Keys die with the next registration and with the user's state.
	old := h.signed("kubeadmin", "listZones")
	h.ok(admin("registerUserKeys", "id", id(u)))
	require.Equal(t, 401, h.get(h.url+"?"+old.Encode()).status)
	h.ok(h.call("kubeadmin", "listZones"))
	h.done("admin", admin("disableUser", "id", id(u)))
	require.Equal(t, 401, h.call("kubeadmin", "listZones").status)
	h.ok(admin("enableUser", "id", id(u)))
	h.ok(h.call("kubeadmin", "listZones"))
}

func TestUserMayNotTouchOthers(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	admin := h.first(h.call("admin", "listUsers", "username", "admin"), "user")
	h.fails(h.call("k8s-owner", "registerUserKeys", "id", id(admin)), 531, wire.CSPermission, wire.NoAccessText)
	h.fails(h.call("k8s-owner", "createAccount", "username", "x"), 432, wire.CSGeneric, "The API [createAccount]")
	h.fails(h.call("k8s-owner", "listManagementServersMetrics"), 432, wire.CSGeneric, "The API [listManagementServersMetrics]")
	h.ok(h.call("admin", "listManagementServersMetrics"))
	require.Len(t, h.call("k8s-owner", "listUsers", "listall", "true").items("user"), 1)
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
	require.Len(t, h.ok(h.root("listVirtualMachines", "listall", "true")).items("virtualmachine"), 3)
	h.fails(h.root("noSuchCommand"), 432, wire.CSGeneric, "Unknown API command")
	nothing := h.root("")
	h.fails(nothing, 432, wire.CSGeneric, "Invalid request, no command sent")
	require.Equal(t, "errorresponse", nothing.key)
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	w := ExampleWorld()
	w.Settings.ThrottleMax = 2
	h := start(t, Options{World: w})
	h.ok(h.call("k8s-owner", "listZones"))
	h.ok(h.call("k8s-owner", "listZones"))
	a := h.call("k8s-owner", "listZones")
	h.fails(a, 429, wire.CSGeneric, "The given user has reached his/her account api limit, please retry after [1000] ms.")
	require.Equal(t, "listzonesresponse", a.key)
	for range 5 {
		h.ok(h.call("admin", "listZones"))
	}
	h.clock.Step(1e9)
	h.ok(h.call("k8s-owner", "listZones"))
}
