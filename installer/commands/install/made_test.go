// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/uninstall"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
)

// requireOnlyTheList allows no change of the cluster but the list of what is made in CloudStack, and its namespace.
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
				if m, ok := c.GetObject().(*corev1.ConfigMap); ok && m.Name == credentials.MadeConfigMap {
					continue
				}
			}
		}
		require.Contains(t, []string{"get", "list", "watch"}, a.GetVerb(), "%v", a)
	}
}

func (b *bench) loggedIn(t *testing.T) *cloudstack.Client {
	t.Helper()
	cfg := cloudconfig.Default()
	cfg.APIURL = b.url
	admin, err := cloudstack.Login(t.Context(), &cfg, "admin", "password", "ROOT")
	require.NoError(t, err)
	return admin
}

// uninstall is csccm uninstall --delete-user.
func (b *bench) uninstall(t *testing.T, dry bool) error {
	t.Helper()
	return uninstall.Run(t.Context(), &engine.Env{
		Cluster: cluster.NewForTest(b.kube), Helm: uninstallable{election: &election{bench: b}}, Prompt: prompt.NewRefusing(), Clock: b.clock,
		Release: engine.DefaultRelease, Yes: true, DryRun: dry, Progress: report.NewProgress(&b.err, report.Style{}, b.clock), Out: &b.out, ErrOut: &b.err,
	}, uninstall.Options{DeleteUser: true, Admin: func(ctx context.Context, cfg *cloudstack.Config) (credentials.Remover, func(), error) {
		if cfg.APIURL != b.url || cfg.SecretKey != "" {
			return nil, nil, errors.New("the login goes to the API of the list, without keys")
		}
		a, err := cloudstack.Login(ctx, cfg, "admin", "password", "ROOT")
		return a, func() { _ = a.Logout(context.WithoutCancel(ctx)) }, err
	}})
}

// names are the users, accounts and roles that CloudStack has.
func (b *bench) names(t *testing.T) (users, accounts, roles []string) {
	t.Helper()
	admin := b.loggedIn(t)
	us, err := admin.ListUsers(t.Context(), "", "", "")
	require.NoError(t, err)
	for _, u := range us {
		users = append(users, u.Username)
	}
	as, err := admin.ListAccounts(t.Context(), "", "")
	require.NoError(t, err)
	for _, a := range as {
		accounts = append(accounts, a.Name)
	}
	rs, err := admin.ListRoles(t.Context(), "")
	require.NoError(t, err)
	for _, r := range rs {
		roles = append(roles, r.Name)
	}
	return users, accounts, roles
}

func (b *bench) gone(t *testing.T, err error) {
	t.Helper()
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func madeBench(t *testing.T, world *simulator.World) *bench {
	t.Helper()
	b := newBenchOf(t, world, "k8s-owner", demoNodes()...)
	b.helm.pods = func(d *appsv1.Deployment) []*corev1.Pod {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Labels}
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "ccm-0"}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}}}
	}
	return b
}

// What csccm makes in CloudStack is listed before it is made, and removed with the list.
func TestUserIsRemoved(t *testing.T) {
	t.Parallel()
	b := madeBench(t, simulator.ExampleWorld())
	usersBefore, accountsBefore, rolesBefore := b.names(t)
	require.NoError(t, b.installer(t, b.admin()).Run(t.Context()), b.err.String())
	b.rotate(t) // makes a second user

	b.out.Reset()
	require.NoError(t, b.uninstall(t, true))
	for _, want := range []string{
		`delete  user "kubeadmin" of account "k8s", domain ROOT in CloudStack`,
		`delete  user "kubeadmin-2" of account "k8s", domain ROOT in CloudStack`,
		"delete  Secret kube-system/cloudstack-secret",
	} {
		require.Contains(t, b.out.String(), want)
	}
	users, _, _ := b.names(t)
	require.Len(t, users, len(usersBefore)+2, "a dry run removes nothing")

	require.NoError(t, b.uninstall(t, false), b.err.String())
	users, accounts, roles := b.names(t)
	require.ElementsMatch(t, usersBefore, users)
	require.ElementsMatch(t, accountsBefore, accounts, "the account was there before")
	require.ElementsMatch(t, rolesBefore, roles)
	_, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), credentials.SecretName, metav1.GetOptions{})
	b.gone(t, err)
	_, err = b.kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), credentials.MadeConfigMap, metav1.GetOptions{})
	b.gone(t, err)
	require.NoError(t, b.installer(t, b.admin()).Run(t.Context()), b.err.String())
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

// A failed install names what it has made, and how to remove it. An account is only deleted if nothing else is in it.
func TestFailedInstallIsRemoved(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]bool{"all of it": false, "an account that somebody else uses too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := madeBench(t, projectWorld())
			usersBefore, accountsBefore, rolesBefore := b.names(t)
			b.helm.fail = errors.New("no chart today")
			o := b.admin()
			o.Credentials.Account, o.Project = "", "p"
			require.ErrorContains(t, b.installer(t, o).Run(t.Context()), "no chart today")
			for _, want := range []string{
				`Made in CloudStack: role "csccm-kubeadm", account "csccm-`,
				`, user "kubeadmin" of account "csccm-`,
				"the next run goes on with it, and csccm uninstall --delete-user removes it",
			} {
				require.Contains(t, b.err.String(), want)
			}
			made, err := credentials.ReadMade(t.Context(), b.kube, "kube-system")
			require.NoError(t, err)
			require.Len(t, made.Objects, 3)
			for _, o := range made.Objects {
				require.NotEmpty(t, o.ID, o)
			}
			if foreign {
				_, err = b.loggedIn(t).CreateUser(t.Context(), cloudstack.CreateUserRequest{
					Account: made.Objects[1].Name, DomainID: made.Objects[1].DomainID, Username: "somebody", Password: "password-1", FirstName: "a", LastName: "b", Email: "c@d",
				})
				require.NoError(t, err)
			}
			b.out.Reset()
			require.NoError(t, b.uninstall(t, false), b.err.String())
			users, accounts, roles := b.names(t)
			if !foreign {
				require.ElementsMatch(t, usersBefore, users)
				require.ElementsMatch(t, accountsBefore, accounts)
				require.ElementsMatch(t, rolesBefore, roles)
				return
			}
			require.ElementsMatch(t, append(usersBefore, "somebody"), users, "csccm's own user goes")
			require.Contains(t, accounts, made.Objects[1].Name)
			require.Contains(t, b.out.String(), `it also has user "somebody"`)
			require.Contains(t, b.out.String(), `stays   role "csccm-kubeadm": account "csccm-`)
			left, err := credentials.ReadMade(t.Context(), b.kube, "kube-system")
			require.NoError(t, err)
			require.Len(t, left.Objects, 2, "account and role stay on the list")
		})
	}
}

// An account that owns anything is kept: deleting it would delete that too.
func TestAccountWithResourcesIsKept(t *testing.T) {
	t.Parallel()
	b := madeBench(t, simulator.ExampleWorld())
	admin := b.loggedIn(t)
	accounts, err := admin.ListAccounts(t.Context(), "k8s", "")
	require.NoError(t, err)
	require.Len(t, accounts, 1)
	account := credentials.MadeObject{Kind: credentials.MadeAccount, Name: "k8s", ID: accounts[0].ID, DomainID: accounts[0].DomainID, Domain: "ROOT"}
	user := credentials.MadeObject{Kind: credentials.MadeUser, Name: "k8s-owner", Account: "k8s", DomainID: accounts[0].DomainID, Domain: "ROOT"}
	removal, err := credentials.PlanRemoval(t.Context(), admin, &credentials.Made{Objects: []credentials.MadeObject{account, user}})
	require.NoError(t, err)
	require.Len(t, removal.Steps, 1)
	require.Equal(t, `user "k8s-owner" of account "k8s", domain ROOT`, removal.Steps[0].Text)
	require.Contains(t, removal.Stays[0], "3 VMs")
}
