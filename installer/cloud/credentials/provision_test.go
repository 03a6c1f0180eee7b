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

// For a cluster of an account, a user is added to the account, and found again in the next run.
func TestProvisionUserInAccount(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, r := e.admin(), e.request("k8s", "")
	r.User = "controller"
	plan := e.plan(admin, r)
	require.Equal(t,
		[]string{`create user "controller" in account "k8s" of domain ROOT`, `register API keys for user "controller"`},
		plan.Steps)
	require.Zero(t, e.writes(), "a plan changes nothing")
	keys := e.apply(admin, plan)
	_, says := e.verified(keys, "")
	require.Contains(t, says, "load balancers are possible in k8s-net")
	require.Zero(t, e.sim.Ledger().Count("createRole", "createAccount"), "the account's role is not ours to change")
	e.stays(admin, r, keys)
}

// The name kubeadmin is taken in domain ROOT, by account frozen; user names are unique in a domain.
func TestProvisionAvoidsTakenName(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, r := e.admin(), e.request("k8s", "")
	plan := e.plan(admin, r)
	require.Equal(t, "kubeadmin-2", plan.User)
	e.stays(admin, r, e.apply(admin, plan))
	require.Equal(t, "kubeadmin-2", e.plan(admin, r).User)

	// The user name is free in another domain.
	r = e.request("twin", "")
	r.Domain = "/tenants"
	plan = e.plan(admin, r)
	require.Equal(t, "kubeadmin", plan.User)
	require.Equal(t, "ROOT/tenants", plan.Domain.Path)
}

// An existing user without keys gets keys; one with keys keeps them.
func TestProvisionReusesUser(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.request("k8s", "")
	r.User = "k8s-owner"
	e.stays(e.admin(), r, e.keysOf("k8s-owner"))
}

// For a cluster of a project, an account with the minimal role becomes a member of the project. Role, account, user and
// keys are created and verified on every release; the role allows all that the controller calls, and no more.
func TestProvisionOnEveryRelease(t *testing.T) {
	t.Parallel()
	for _, version := range simulator.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := newEnvOf(t, version)
			admin, r := e.admin(), e.request("", "shop")
			plan := e.plan(admin, r)
			require.Len(t, plan.Steps, 4, "%q", plan.Steps)
			require.True(t, strings.HasPrefix(plan.Account, "csccm-"), plan.Account)

			keys := e.apply(admin, plan)
			id, says := e.verified(keys, "shop")
			require.Equal(t, plan.Project.ID, id)
			require.Contains(t, says, "CloudStack "+version+".0.0 at ")
			require.Contains(t, says, "load balancers are possible in shop-net")
			apis, err := e.as(keys).ListAPIs(t.Context())
			require.NoError(t, err)
			require.Len(t, apis, len(r.Commands),
				"the role allows just these; every call of the controller is there since 4.16")
			e.stays(admin, r, keys)
		})
	}
}

// Whichever call fails, or loses its answer, the next run ends with one role, one account and keys that work.
func TestProvisionContinuesAfterAnyFault(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"createRole", "createRolePermission", "createAccount", "registerUserKeys",
		"addAccountToProject"} {
		for _, kind := range []simulator.FaultKind{simulator.FaultErrorBefore, simulator.FaultLostAnswer,
			simulator.FaultCutBefore} {
			t.Run(fmt.Sprintf("%s %d", command, kind), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				admin, r := e.admin(), e.request("", "shop")
				nth := 1
				if command == "createRolePermission" {
					nth = 7
				}
				plan := e.plan(admin, r)
				remove := e.sim.Inject(simulator.Fault{Command: command, Nth: nth, Kind: kind})
				_, err := plan.Apply(t.Context(), nothing)
				remove()
				require.Error(t, err, "the fault did not show")

				e.verified(e.apply(admin, e.plan(admin, r)), "shop")
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
	e := newEnv(t)
	admin := e.admin()
	const nobody, twin, there = `there is no account "nobody" in domain ROOT`, `there is no account "twin" in domain ROOT`, "there is one in ROOT/tenants: --domain ROOT/tenants"
	for name, tc := range map[string]struct {
		account, project string
		change           func(*credentials.Request)
		err, remedy      string
	}{
		"no account":                {"", "", nil, "no account is named", "--account"},
		"unknown account":           {"nobody", "", nil, nobody, "--account, --domain"},
		"account of another domain": {"twin", "", nil, twin, there},
		"new account of another's name": {"twin", "", func(r *credentials.Request) { r.CreateAccount = true }, twin,
			there},
		"new account without a project": {"nobody", "", func(r *credentials.Request) { r.CreateAccount = true }, nobody,
			"--project"},
		"unknown member of a project": {"nobody", "shop", nil, nobody, "--create-account"},
		"unknown domain": {"k8s", "", func(r *credentials.Request) { r.Domain = "ROOT/none" },
			`there is no domain "ROOT/none"`, "ROOT/tenants"},
		"unknown project": {"k8s", "none", nil, `there is no project "none"`, "shop"},
		"disabled user": {"frozen", "", func(r *credentials.Request) { r.User = "kubeadmin" },
			`user "kubeadmin" of account "frozen" is disabled`, "--controller-user"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := e.request(tc.account, tc.project)
			if tc.change != nil {
				tc.change(&r)
			}
			e.refused(admin, r, tc.err, tc.remedy)
		})
	}

	// The login of a user who is not an administrator is refused with the reason.
	e.refused(e.as(e.keysOf("k8s-owner")), e.request("k8s", ""), "", "log in as an administrator")
	require.Zero(t, e.writes())
}

// A project of another domain gets a member of that domain: CloudStack accepts no other.
func TestProjectOfAnotherDomain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, r := e.admin(), e.request("", "tenant-shop")
	p := e.plan(admin, r)
	require.Equal(t, "ROOT/tenants", p.Domain.Path)
	keys := e.apply(admin, p)
	sees, err := r.Sees(t.Context(), keys, p.Project.ID)
	require.NoError(t, err)
	require.True(t, sees)
	e.stays(admin, r, keys)

	// A domain that was named is not replaced by another.
	r.Domain = "ROOT"
	e.refused(admin, r, `there is no project "tenant-shop"`, "")
	r.Project = p.Project.ID
	e.refused(admin, r, "there is no project", "")
}

// If no domain is given, csccm uses the domain of the domain administrator, who cannot see ROOT.
func TestDomainAdminMakesUser(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	boss, r := e.boss(), e.request("twin", "")
	p := e.plan(boss, r)
	require.Equal(t, "ROOT/tenants", p.Domain.Path)
	e.verified(e.apply(boss, p), "")
	r.Domain = "ROOT"
	e.refused(boss, r, `there is no domain "ROOT" that this administrator can see`, "")
}

// A domain administrator may not create roles; the error comes before anything is created. With an existing role it
// works.
func TestDomainAdminMakesAccount(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.refused(e.boss(), e.request("", "tenant-shop"), `this administrator may not create role "csccm-kubeadm"`,
		"--role-name User")
	require.Zero(t, e.writes())
	for name, role := range map[string]string{"default role": "User", "role made by a root administrator": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			if role == "" {
				e.apply(e.admin(), e.plan(e.admin(), e.request("", "shop")))
			}

			boss, r := e.boss(), e.request("", "tenant-shop")
			r.Role = role
			keys := e.apply(boss, e.plan(boss, r))
			e.verified(keys, "tenant-shop")
			e.stays(boss, r, keys)
		})
	}
}

// If projects invite their members, a pending invitation does not make a member.
func TestPendingInvitationIsNoMembership(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	admin, r := e.admin(), e.request("", "shop")
	e.sim.Inject(simulator.Fault{
		Command: "addAccountToProject",
		Kind:    simulator.FaultJobFails,
		Count:   1,
		Text:    "There is already a pending invitation for the account",
	})
	_, err := e.plan(admin, r).Apply(t.Context(), nothing)
	require.ErrorContains(t, err, "already a pending invitation")
	require.ErrorContains(t, err, `of project "shop"`)
}
