// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/simulator"
)

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
		"unknown account": {func(r *credentials.Request) { r.Account = "nobody" }, `there is no account "nobody" in domain ROOT`, "--account, --domain"},
		"account of another domain": {
			func(r *credentials.Request) { r.Account = "twin" }, `there is no account "twin" in domain ROOT`,
			"there is one in ROOT/tenants: --domain ROOT/tenants",
		},
		"new account of another's name": {
			func(r *credentials.Request) { r.Account, r.CreateAccount = "twin", true }, `there is no account "twin" in domain ROOT`,
			"there is one in ROOT/tenants: --domain ROOT/tenants",
		},
		"new account without a project": {
			func(r *credentials.Request) { r.Account, r.CreateAccount = "nobody", true }, "a new one would own none of the cluster's VMs", "--project NAME",
		},
		"unknown member of a project": {
			func(r *credentials.Request) { r.Account, r.Project = "nobody", "shop" }, `there is no account "nobody" in domain ROOT`, "--create-account",
		},
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
