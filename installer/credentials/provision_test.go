// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/simulator"
)

const world = `
zones:
  - {name: zone-1, publicRanges: [203.0.113.10-203.0.113.99]}
domains:
  - {path: ROOT/tenants}
roles:
  - name: nearly nothing
    type: User
    rules: [{allow: listVirtualMachines}, {allow: listApis}, {allow: listCapabilities}, {allow: listZones}, {deny: "*"}]
  - name: no apis
    type: User
    rules: [{deny: listApis}, {deny: listCapabilities}, {deny: listZones}]
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password}]}
  - {name: k8s, role: User, users: [{name: k8s-owner, password: password}]}
  - {name: other, role: User, users: [{name: other-owner, password: password}]}
  - {name: poor, role: nearly nothing, users: [{name: poor-owner, password: password}]}
  - {name: quiet, role: no apis, users: [{name: quiet-owner, password: password}]}
  - {name: frozen, role: User, users: [{name: kubeadmin, password: password, state: disabled}]}
  - {name: twin, role: User, domain: ROOT/tenants, users: [{name: twin-owner, password: password}]}
projects:
  - {name: shop, owner: other}
  - {name: tenant-shop, owner: twin}
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.1.0/24}
  - {name: quiet-net, account: quiet, cidr: 10.1.2.0/24}
  - {name: poor-net, account: poor, cidr: 10.1.4.0/24}
  - {name: shop-net, project: shop, cidr: 10.1.3.0/24}
virtualMachines:
  - {name: node-1, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: 10.1.1.11}]}
  - {name: node-2, account: quiet, offering: Small Instance, nics: [{network: quiet-net, ip: 10.1.2.11}]}
  - {name: node-3, account: poor, offering: Small Instance, nics: [{network: poor-net, ip: 10.1.4.11}]}
  - {name: shop-1, project: shop, offering: Small Instance, nics: [{network: shop-net, ip: 10.1.3.11}]}
`

type cloud struct {
	sim *simulator.Simulator
	url string
}

func newCloud(t *testing.T) *cloud { t.Helper(); return newCloudOf(t, "") }

// newCloudOf is a CloudStack of a release.
func newCloudOf(t *testing.T, version string) *cloud {
	t.Helper()
	w, err := simulator.LoadWorld(strings.NewReader(world))
	require.NoError(t, err)
	w.Version = version
	sim, err := simulator.New(simulator.Options{World: w})
	require.NoError(t, err)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { server.Close(); sim.Close() })
	return &cloud{sim, server.URL + "/client/api"}
}

func (c *cloud) login(t *testing.T) *cloudstack.Client {
	t.Helper()
	cfg := cloudstack.DefaultConfig()
	cfg.APIURL = c.url
	admin, err := cloudstack.Login(t.Context(), &cfg, "admin", "password", "ROOT")
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Logout(context.WithoutCancel(t.Context())) })
	return admin
}

func (c *cloud) config(keys credentials.Keys) *cloudstack.Config {
	cfg := cloudstack.DefaultConfig()
	cfg.APIURL, cfg.APIKey, cfg.SecretKey = c.url, keys.APIKey, keys.SecretKey
	return &cfg
}

func (c *cloud) as(t *testing.T, keys credentials.Keys) *cloudstack.Client {
	t.Helper()
	client, err := cloudstack.NewClient(c.config(keys))
	require.NoError(t, err)
	return client
}

func (c *cloud) keysOf(t *testing.T, user string) credentials.Keys {
	t.Helper()
	api, secret, ok := c.sim.Keys(user)
	require.True(t, ok, user)
	return credentials.Keys{APIKey: api, SecretKey: secret}
}

func (c *cloud) request() credentials.Request {
	return credentials.Request{
		Account: "k8s", Commands: append([]string{"listApis", "listCapabilities"}, provider.RequiredCommands...),
		Sees: func(ctx context.Context, keys credentials.Keys, project string) (bool, error) {
			client, err := cloudstack.NewClient(c.config(keys))
			if err != nil {
				return false, err
			}
			projects, err := client.ListProjects(ctx)
			return slices.ContainsFunc(projects, func(p cloudstack.Project) bool { return p.ID == project }), err
		},
	}
}

func want(c *cloud) credentials.Want {
	return credentials.Want{
		APIURL: c.url, Optional: provider.OptionalCommands,
		Required: slices.DeleteFunc(slices.Clone(provider.RequiredCommands), func(s string) bool { return slices.Contains(provider.OptionalCommands, s) }),
	}
}

func nothing(string) {}

// writes counts the calls that change something.
func (c *cloud) writes() int {
	return c.sim.Ledger().Count("createRole", "createRolePermission", "createAccount", "createUser", "registerUserKeys", "addAccountToProject")
}

// A cluster of an account: a user is added there, and found again.
func TestProvisionUserInAccount(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	admin := c.login(t)
	r := c.request()
	r.User = "controller"
	plan, err := credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.Equal(t, []string{`create user "controller" in account "k8s" of domain ROOT`, `register API keys for user "controller"`}, plan.Steps)
	require.Zero(t, c.writes(), "a plan changes nothing")

	keys, err := plan.Apply(t.Context(), admin, nothing)
	require.NoError(t, err)
	v, err := credentials.Verify(t.Context(), c.as(t, keys), want(c))
	require.NoError(t, err)
	require.Equal(t, 1, v.VMs)
	require.Equal(t, []string{"k8s-net"}, v.Networks)
	require.Zero(t, c.sim.Ledger().Count("createRole", "createAccount"), "the account's role is not ours to change")

	// Again: the same keys, and nothing to do. Registering would kill the pair in use.
	before := c.writes()
	again, err := credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.False(t, again.Changes())
	same, err := again.Apply(t.Context(), admin, nothing)
	require.NoError(t, err)
	require.Equal(t, keys, same)
	require.Equal(t, before, c.writes())
}

// kubeadmin is taken in domain ROOT, by account frozen; names are unique there.
func TestProvisionAvoidsTakenName(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	admin := c.login(t)
	plan, err := credentials.Plan(t.Context(), admin, c.request())
	require.NoError(t, err)
	require.Equal(t, "k8s-kubeadmin", plan.User)
	_, err = plan.Apply(t.Context(), admin, nothing)
	require.NoError(t, err)
	again, err := credentials.Plan(t.Context(), admin, c.request())
	require.NoError(t, err)
	require.Equal(t, "k8s-kubeadmin", again.User)
	require.False(t, again.Changes())

	// In another domain the name is free.
	r := c.request()
	r.Account, r.Domain = "twin", "/tenants"
	plan, err = credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.Equal(t, "kubeadmin", plan.User)
	require.Equal(t, "ROOT/tenants", plan.Domain.Path)
}

// A user that exists without keys gets some; one with keys keeps them.
func TestProvisionReusesUser(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	admin := c.login(t)
	r := c.request()
	r.User = "k8s-owner"
	plan, err := credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.False(t, plan.Changes())
	keys, err := plan.Apply(t.Context(), admin, nothing)
	require.NoError(t, err)
	require.Equal(t, c.keysOf(t, "k8s-owner"), keys)
}

// A cluster of a project: account with the minimal role, member of the project.
// The minimal role suffices for all that the controller calls, and no more.
func TestProvisionProject(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	admin := c.login(t)
	r := c.request()
	r.Account, r.Project = "", "shop"
	plan, err := credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.Len(t, plan.Steps, 4, "%q", plan.Steps)
	require.True(t, strings.HasPrefix(plan.Account, "csccm-"), plan.Account)
	keys, err := plan.Apply(t.Context(), admin, nothing)
	require.NoError(t, err)

	w := want(c)
	w.Project, w.Zone = "shop", "zone-1"
	v, err := credentials.Verify(t.Context(), c.as(t, keys), w)
	require.NoError(t, err)
	require.Equal(t, plan.Project.ID, v.Project.ID)
	require.Equal(t, 1, v.VMs)
	for _, f := range v.Findings {
		require.True(t, f.OK, "%+v", f)
	}
	apis, err := c.as(t, keys).ListAPIs(t.Context())
	require.NoError(t, err)
	require.Len(t, apis, len(r.Commands), "the role allows just these")

	before := c.writes()
	again, err := credentials.Plan(t.Context(), admin, r)
	require.NoError(t, err)
	require.False(t, again.Changes(), "%q", again.Steps)
	same, err := again.Apply(t.Context(), admin, nothing)
	require.NoError(t, err)
	require.Equal(t, keys, same)
	require.Equal(t, before, c.writes())
}

// Role, account, user and keys are made and verified on every release, by the minimal role alone.
func TestProvisionOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newCloudOf(t, version)
			admin := c.login(t)
			r := c.request()
			r.Account, r.Project = "", "shop"
			plan, err := credentials.Plan(t.Context(), admin, r)
			require.NoError(t, err)
			keys, err := plan.Apply(t.Context(), admin, nothing)
			require.NoError(t, err)
			w := want(c)
			w.Project = "shop"
			v, err := credentials.Verify(t.Context(), c.as(t, keys), w)
			require.NoError(t, err)
			require.Equal(t, version+".0.0", v.Version)
			require.Equal(t, []string{"shop-net"}, v.Networks)
			for _, f := range v.Findings {
				require.True(t, f.OK, "%v", f)
			}
			apis, err := c.as(t, keys).ListAPIs(t.Context())
			require.NoError(t, err)
			require.Len(t, apis, len(r.Commands), "every call of the controller is there since 4.16")
		})
	}
}

// Wherever a call fails or its answer is lost, the next run ends with one role,
// one account and keys that work.
func TestProvisionContinuesAfterAnyFault(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"createRole", "createRolePermission", "createAccount", "registerUserKeys", "addAccountToProject"} {
		for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer, simulator.FaultCutBefore} {
			t.Run(fmt.Sprintf("%s %d", command, kind), func(t *testing.T) {
				t.Parallel()
				c := newCloud(t)
				admin := c.login(t)
				r := c.request()
				r.Account, r.Project = "", "shop"
				nth := 1
				if command == "createRolePermission" {
					nth = 7
				}
				plan, err := credentials.Plan(t.Context(), admin, r)
				require.NoError(t, err)
				remove := c.sim.Inject(simulator.Fault{Command: command, Nth: nth, Kind: kind})
				_, err = plan.Apply(t.Context(), admin, nothing)
				remove()
				require.Error(t, err, "the fault did not show")

				plan, err = credentials.Plan(t.Context(), admin, r)
				require.NoError(t, err)
				keys, err := plan.Apply(t.Context(), admin, nothing)
				require.NoError(t, err)
				w := want(c)
				w.Project = "shop"
				_, err = credentials.Verify(t.Context(), c.as(t, keys), w)
				require.NoError(t, err)
				roles, err := admin.ListRoles(t.Context(), credentials.DefaultRole)
				require.NoError(t, err)
				require.Len(t, roles, 1)
				rules, err := admin.ListRolePermissions(t.Context(), roles[0].ID)
				require.NoError(t, err)
				require.Len(t, rules, len(r.Commands)+1)
				require.Equal(t, "*", rules[len(rules)-1].Rule)
			})
		}
	}
}

func TestProvisionRefusals(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	admin := c.login(t)
	tests := map[string]struct {
		change func(*credentials.Request)
		err    string
		remedy string
	}{
		"no account":      {func(r *credentials.Request) { r.Account = "" }, "no account is named", "--account"},
		"unknown account": {func(r *credentials.Request) { r.Account = "nobody" }, `there is no account "nobody" in domain ROOT`, "--create-account"},
		"unknown domain":  {func(r *credentials.Request) { r.Domain = "ROOT/none" }, `there is no domain "ROOT/none"`, "ROOT/tenants"},
		"unknown project": {func(r *credentials.Request) { r.Project = "none" }, `there is no project "none"`, "shop"},
		"disabled user":   {func(r *credentials.Request) { r.Account = "frozen" }, `user "kubeadmin" of account "frozen" is disabled`, "--user"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.request()
			tc.change(&r)
			_, err := credentials.Plan(t.Context(), admin, r)
			require.ErrorContains(t, err, tc.err)
			var e *credentials.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Remedy(), tc.remedy)
		})
	}
	require.Zero(t, c.writes())
}

// A login that is no administrator is told so.
func TestProvisionAsUser(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	_, err := credentials.Plan(t.Context(), c.as(t, c.keysOf(t, "k8s-owner")), c.request())
	var e *credentials.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Remedy(), "log in as an administrator")
}

func TestExplainLogin(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	cfg := c.config(credentials.Keys{})
	_, err := cloudstack.Login(t.Context(), cfg, "admin", "wrong-canary", "ROOT")
	require.Error(t, err)
	err = credentials.ExplainLogin(c.url, "admin", "ROOT", err)
	require.ErrorContains(t, err, `refuses the login of user "admin" in domain "ROOT"`)
	require.NotContains(t, err.Error(), "canary")

	dead := httptest.NewServer(http.NotFoundHandler())
	cfg.APIURL = dead.URL + "/client/api"
	dead.Close()
	_, err = cloudstack.Login(t.Context(), cfg, "admin", "wrong-canary", "ROOT")
	err = credentials.ExplainLogin(cfg.APIURL, "admin", "ROOT", err)
	require.ErrorContains(t, err, "no CloudStack API answers at "+cfg.APIURL)
	require.NotContains(t, err.Error(), "canary")
}

func TestVerify(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tests := map[string]struct {
		user   string
		change func(*credentials.Want)
		keys   *credentials.Keys
		err    string
		remedy string
		notes  []string // subjects of findings that are not well
	}{
		"fine":             {user: "k8s-owner", change: func(w *credentials.Want) { w.Zone = "zone-1" }},
		"unknown zone":     {user: "k8s-owner", change: func(w *credentials.Want) { w.Zone = "zone-9" }, err: `there is no zone "zone-9"`, remedy: "zone-1"},
		"unknown project":  {user: "k8s-owner", change: func(w *credentials.Want) { w.Project = "shop" }, err: `there is no project "shop" that these credentials can see`, remedy: "--project"},
		"wrong keys":       {keys: &credentials.Keys{APIKey: "api-canary", SecretKey: "secret-canary"}, err: "does not accept the API keys", remedy: "check both keys"},
		"role too small":   {user: "poor-owner", err: "the user's role does not allow assignToLoadBalancerRule, associateIpAddress", remedy: "allow them in the role"},
		"no machine":       {user: "other-owner", err: "the user sees no virtual machine", remedy: "--account"},
		"role may not ask": {user: "quiet-owner", change: func(w *credentials.Want) { w.Zone = "zone-1" }, notes: []string{"zone", "role"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := tc.keys
			if keys == nil {
				k := c.keysOf(t, tc.user)
				keys = &k
			}
			w := want(c)
			if tc.change != nil {
				tc.change(&w)
			}
			v, err := credentials.Verify(t.Context(), c.as(t, *keys), w)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				var e *credentials.Error
				require.ErrorAs(t, err, &e)
				require.Contains(t, e.Remedy(), tc.remedy)
				require.NotContains(t, err.Error()+e.Remedy(), "canary")
				return
			}
			require.NoError(t, err)
			var notes []string
			for _, f := range v.Findings {
				if !f.OK {
					notes = append(notes, f.Subject)
				}
			}
			require.Equal(t, tc.notes, notes)
		})
	}
	t.Cleanup(func() { require.Zero(t, c.writes(), "verification changes nothing") })
}
