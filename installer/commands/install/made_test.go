// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// names returns the users, accounts and roles that CloudStack has.
func (e *env) names(t *testing.T) (all []string) {
	t.Helper()
	admin := e.cloud.Admin(t)
	users, err := admin.ListUsers(t.Context(), "")
	require.NoError(t, err)
	accounts, err := admin.ListAccounts(t.Context(), "")
	require.NoError(t, err)
	roles, err := admin.ListRoles(t.Context(), "")
	require.NoError(t, err)
	for _, u := range users {
		all = append(all, "user "+u.Username)
	}

	for _, a := range accounts {
		all = append(all, "account "+a.Name)
	}

	for _, r := range roles {
		all = append(all, "role "+r.Name)
	}

	return all
}

// csccm records every object in CloudStack before it creates it. An uninstall deletes the recorded objects and the
// record.
func TestUserIsRemoved(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.onePod()
	before := e.names(t)
	e.install(t, e.admin())
	e.rotate(t) // makes a second user

	e.Stdout.Reset()
	e.uninstall(t, true)
	for _, want := range []string{
		`delete      user "kubeadmin" of account "k8s", domain ROOT in CloudStack`,
		`delete      user "kubeadmin-2" of account "k8s", domain ROOT in CloudStack`,
		"delete      Secret kube-system/cloudstack-secret",
	} {
		require.Contains(t, e.Stdout.String(), want)
	}
	require.Len(t, e.names(t), len(before)+2, "a dry run removes nothing")

	e.uninstall(t, false)
	require.ElementsMatch(t, before, e.names(t), "the account was there before")
	require.Nil(t, e.Secret(t, access.SecretName))
	_, err := e.Kube.CoreV1().ConfigMaps(testenv.Namespace).Get(t.Context(), credentials.CreatedConfigMap,
		metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
	e.install(t, e.admin())
}

// If the list of what csccm created is lost, the users of this cluster are found by its mark, and an account that has
// only such users. Users of other clusters are kept. A rotation lists all that again.
func TestUserIsRemovedWithoutTheList(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ ownAccount, rotate bool }{
		"in an account that was there":               {},
		"after a rotation":                           {rotate: true},
		"in an account of its own":                   {ownAccount: true},
		"in an account of its own, after a rotation": {ownAccount: true, rotate: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			o := e.admin()
			if tc.ownAccount {
				e = newEnvOf(t, projectWorld(), testenv.Owner, demoNodes()...)
				o = e.admin()
				o.Account, o.Answers["project-id"] = "", "p"
			}
			e.onePod()
			before := e.names(t)
			e.install(t, o)
			lists := e.Kube.CoreV1().ConfigMaps(testenv.Namespace)
			require.NoError(t, lists.Delete(t.Context(), credentials.CreatedConfigMap, metav1.DeleteOptions{}))
			admin := e.cloud.Admin(t)
			if !tc.ownAccount {
				accounts, err := admin.ListAccounts(t.Context(), "k8s")
				require.NoError(t, err)
				_, err = admin.CreateUser(t.Context(),
					cloudapi.NewUser{Account: "k8s", DomainID: accounts[0].DomainID, Name: "other", Cluster: "another"})
				require.NoError(t, err)
				before = append(before, "user other")
			}
			if tc.rotate {
				e.rotate(t)
				list, err := lists.Get(t.Context(), credentials.CreatedConfigMap, metav1.GetOptions{})
				require.NoError(t, err)
				require.Contains(t, list.Data["made.json"], `"name":"kubeadmin"`)
			}

			e.uninstall(t, false)
			require.ElementsMatch(t, before, e.names(t))
			require.Nil(t, e.Secret(t, access.SecretName), "its keys have ended")
		})
	}
}

func projectWorld() *simulator.World {
	w := simulator.ExampleWorld()
	w.Projects = append(w.Projects, simulator.Project{Name: "p", Owner: "admin"})
	for i := range w.Networks {
		w.Networks[i].Account, w.Networks[i].Project = "", "p"
	}
	for i := range w.VirtualMachines {
		w.VirtualMachines[i].Account, w.VirtualMachines[i].Project = "", "p"
	}
	return w
}

// A failed install names what it has created, and how to remove it. An account is only deleted if nothing else is in
// it.
func TestFailedInstallIsRemoved(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]bool{"all of it": false, "an account that somebody else uses too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnvOf(t, projectWorld(), testenv.Owner, demoNodes()...)
			e.onePod()
			before := e.names(t)
			e.Releases.Err = errors.New("no chart today")
			o := e.admin()
			o.Account, o.Answers["project-id"] = "", "p"
			require.ErrorContains(t, e.installer(t, o).Run(t.Context()), "no chart today")
			for _, want := range []string{
				`Created in CloudStack: role "csccm-kubeadm", account "csccm-`,
				`, user "kubeadmin" of account "csccm-`,
				"the next run continues with it, and csccm uninstall --delete-user removes it",
			} {
				require.Contains(t, e.Stderr.String(), want)
			}

			made, err := credentials.ReadCreated(t.Context(), e.Kube, "kube-system")
			require.NoError(t, err)
			require.Len(t, made.Objects, 3)
			for _, o := range made.Objects {
				require.NotEmpty(t, o.ID, o)
			}

			if foreign {
				_, err = e.cloud.Admin(t).CreateUser(t.Context(), cloudapi.NewUser{
					Account: made.Objects[1].Name, DomainID: made.Objects[1].DomainID, Name: "somebody",
				})
				require.NoError(t, err)
			}

			e.Stdout.Reset()
			e.uninstall(t, false)
			if !foreign {
				require.ElementsMatch(t, before, e.names(t))
				return
			}

			stay := []string{"user somebody", "account " + made.Objects[1].Name, "role csccm-kubeadm"}
			require.ElementsMatch(t, append(before, stay...), e.names(t), "csccm's own user goes")
			require.Contains(t, e.Stdout.String(), `it also has user "somebody"`)
			require.Contains(t, e.Stdout.String(), `keep        role "csccm-kubeadm": account "csccm-`)
			left, err := credentials.ReadCreated(t.Context(), e.Kube, "kube-system")
			require.NoError(t, err)
			require.Len(t, left.Objects, 2, "account and role stay on the list")
		})
	}
}

// An account that owns anything is kept: deleting it would delete that too.
func TestAccountWithResourcesIsKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.onePod()
	admin := e.cloud.Admin(t)
	accounts, err := admin.ListAccounts(t.Context(), "k8s")
	require.NoError(t, err)
	require.Len(t, accounts, 1)
	account := credentials.CreatedObject{
		Kind:     credentials.CreatedAccount,
		Name:     "k8s",
		ID:       accounts[0].ID,
		DomainID: accounts[0].DomainID,
		Domain:   "ROOT",
	}

	user := credentials.CreatedObject{
		Kind:     credentials.CreatedUser,
		Name:     "k8s-owner",
		Account:  "k8s",
		DomainID: accounts[0].DomainID,
		Domain:   "ROOT",
	}

	removal, err := credentials.PlanRemoval(t.Context(), admin,
		&credentials.Created{Objects: []credentials.CreatedObject{account, user}})
	require.NoError(t, err)
	require.Len(t, removal.Steps, 1)
	require.Equal(t, `user "k8s-owner" of account "k8s", domain ROOT in CloudStack`, removal.Steps[0].Text)
	require.Contains(t, removal.Remaining[0], "3 VMs")
}
