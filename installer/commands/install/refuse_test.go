// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// requireOnlyTheList checks that nothing in the cluster changed except the list of objects created in CloudStack, and
// its namespace.
func requireOnlyTheList(t *testing.T, actions []ktesting.Action) {
	t.Helper()
	for _, a := range actions {
		if c, ok := a.(ktesting.CreateActionImpl); ok && len(c.CreateOptions.DryRun) > 0 {
			continue
		}
		switch {
		case a.GetResource().Resource == "namespaces" && a.GetVerb() == "create":
			continue
		case a.GetResource().Resource == "configmaps":
			if c, ok := a.(ktesting.CreateAction); ok {
				if m, ok := c.GetObject().(*corev1.ConfigMap); ok && m.Name == credentials.CreatedConfigMap {
					continue
				}
			}
		}
		require.Contains(t, []string{"get", "list", "watch"}, a.GetVerb(), "%v", a)
	}
}

// expire replaces the keys of the VMs' owner, so the known keys become invalid.
func (e *env) expire(t *testing.T) {
	t.Helper()
	admin := e.cloud.Admin(t)
	users, err := admin.ListUsers(t.Context(), "")
	require.NoError(t, err)
	_, err = admin.RegisterUserKeys(t.Context(),
		testenv.Named(t, users, testenv.Owner, func(u cloudapi.User) string { return u.Username }).ID)
	require.NoError(t, err)
}

// elsewhereWorld has an account without VMs in another domain, and a project without VMs.
func elsewhereWorld() *simulator.World {
	w := simulator.ExampleWorld()
	w.Domains = append(w.Domains, simulator.Domain{Path: "ROOT/empty"})
	w.Accounts = append(w.Accounts,
		simulator.Account{
			Name:   "other",
			Role:   "User",
			Domain: "ROOT/empty",
			Users:  []simulator.User{{Name: "o", Password: "password"}},
		})
	w.Projects = append(w.Projects, simulator.Project{Name: "p", Owner: "k8s"})
	return w
}

// Each invalid input returns an error with its cause and a remedy, and changes nothing. A dry run returns the same
// message and exit code.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	type row struct {
		change func(t *testing.T, e *env, o *Config)
		says   string
		fix    string
		code   int
	}

	account := func(name string) func(*testing.T, *env, *Config) {
		return func(_ *testing.T, _ *env, o *Config) { o.Account = name }
	}
	for kind, rows := range map[string]map[string]row{
		"keys": {
			"the API server refuses an object": {func(_ *testing.T, e *env, _ *Config) {
				e.Diff = func(context.Context, string, string) ([]diff.Change, error) {
					return []diff.Change{
						{
							Kind:    "ClusterRole",
							Name:    "x",
							Action:  diff.Create,
							Problem: "is attempting to grant RBAC permissions not currently held",
						},
					}, nil
				}
			}, "nothing was changed: the API server refuses ClusterRole x", "ask for the permission", 3},
			"a Secret with a broken cloud-config": {func(t *testing.T, e *env, o *Config) {
				e.putSecret(t, "[Global]\nsecret-key = word-canary\nflavour = vanilla-canary\n")
				*o = Config{}
			}, "Secret kube-system/cloudstack-secret", "correct the Secret", 2},
			"the key in the Secret expired": {func(t *testing.T, e *env, o *Config) {
				e.putKeys(t, o.Answers["api-key"], o.Answers["secret-key"])
				*o = Config{}
				e.expire(t)
			}, "does not accept the API keys", "check both keys", 1},
			"a URL of no API": {func(_ *testing.T, _ *env, o *Config) { o.Answers["api-url"] = "ftp://x" }, "--api-url",
				"give the URL", 2},
			"another label for the Pods": {func(_ *testing.T, _ *env, o *Config) {
				o.Values = map[string]any{"nameOverride": "cloud"}
			},
				"chart values: nameOverride: csccm finds the controller by the label " +
					"app.kubernetes.io/name=cloudstack-ccm, not cloud", "fullnameOverride", 2},
			"other keys in the Secret": {func(t *testing.T, e *env, _ *Config) {
				e.putKeys(t, "a-canary", "b-canary")
			}, "Secret kube-system/cloudstack-secret exists and differs: api-key differs", "--overwrite-secret", 2},
			"an account beside the keys": {account("k8s"),
				"--account, --create-account, --domain, --controller-user and --role-name are for a user that an " +
					"administrator creates", "", 2},
			"an account beside the Secret's keys": {func(t *testing.T, e *env, o *Config) {
				e.putKeys(t, o.Answers["api-key"], o.Answers["secret-key"])
				*o = Config{Account: "k8s"}
			},
				"--account, --create-account, --domain, --controller-user and --role-name are for a user that an " +
					"administrator creates", "", 2},
			"a flag for a user that nobody makes": {func(_ *testing.T, _ *env, o *Config) {
				o.CreateAccount = true
			}, "are for a user that an administrator creates", "", 2},
			"a failed check": {func(_ *testing.T, e *env, _ *Config) {
				e.failing = []check.Result{
					{Code: "CCM-003", Finding: check.Finding{
						Outcome: check.Failed, Message: "another controller", Remedy: "stop it",
					}},
				}
			}, "nothing was installed: CCM-003 failed: another controller", "stop it", 3},
			"no keys of another provider": {func(_ *testing.T, _ *env, o *Config) {
				*o = Config{FromPredecessor: true}
			}, "no Secret of another provider holds a cloud-config", "", 2},
		},
		"login": {
			"a wrong password": {func(_ *testing.T, _ *env, o *Config) { o.AdminPassword = "wrong-canary" },
				"refuses the login", "", 1},
			"an account to be made for VMs that another one owns": {func(_ *testing.T, _ *env, o *Config) {
				o.Account, o.CreateAccount = "nobody", true
			}, `there is no account "nobody"`, "--project", 2},
			"an unknown zone, before the user is made": {func(_ *testing.T, _ *env, o *Config) {
				o.Answers["zone"] = "zone-9"
			}, `there is no zone "zone-9"`, "zone-1", 2},
			"a Secret without the new user's keys": {func(t *testing.T, e *env, _ *Config) {
				e.putKeys(t, "a-canary", "b-canary")
			}, "exists and differs: it would get the new user's keys", "--overwrite-secret", 2},
			// An administrator's login shows which account owns the VMs of the nodes.
			"another account than the nodes'": {
				func(_ *testing.T, _ *env, o *Config) { o.Account, o.Domain = "other", "empty" },
				"3 of 3 nodes have no VM in account other of domain ROOT/empty, zone zone-1; wrong account, project " +
					"or zone: VMs of the nodes are elsewhere, 3 in account k8s of domain ROOT, zone zone-1 " +
					"(--account k8s --domain ROOT, --zone zone-1)",
				"do not delete any Node: run `csccm install` with the account", 3,
			},
			"a project without the nodes": {func(_ *testing.T, _ *env, o *Config) {
				o.Account, o.Answers["project-id"] = "", "p"
			}, "3 of 3 nodes have no VM in project p, zone zone-1", "do not delete any Node", 3},
		},
	} {
		for name, tc := range rows {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEnvOf(t, elsewhereWorld(), testenv.Owner, demoNodes()...)
				o := e.admin()
				if kind == "keys" {
					o = e.keys(t)
				}

				tc.change(t, e, &o)
				made := []string{"createRole", "createRolePermission", "createAccount", "createUser",
					"registerUserKeys", "addAccountToProject"}
				before, users := len(e.Kube.Actions()), e.cloud.Ledger().Count(made...)
				e.DryRun = true
				promised := e.installer(t, o).Run(t.Context())
				testenv.RequireRefusal(t, promised, tc.says, tc.fix, tc.code)
				require.NotContains(t, promised.Error(), "\n", "one line")
				e.DryRun = false
				require.EqualError(t, e.installer(t, o).Run(t.Context()), promised.Error())
				requireOnlyTheList(t, e.Kube.Actions()[before:])
				require.Equal(t, users, e.cloud.Ledger().Count(made...), "nor is CloudStack")
				require.Zero(t, e.Releases.Applied)
				e.requireNoSecrets(t, "canary")
				require.NotContains(t, promised.Error(), "canary")
			})
		}
	}
}
