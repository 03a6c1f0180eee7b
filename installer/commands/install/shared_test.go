// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
)

// second returns another cluster in the same CloudStack account.
func (e *env) second(t *testing.T, uid types.UID) *env {
	t.Helper()
	o := &env{Env: testenv.NewIn(t, uid, demoNodes()...), cloud: e.cloud, vms: e.vms}
	o.Poll = func() { o.controller(t.Context()) }
	o.Releases.Changed = o.changed
	o.onePod()
	return o
}

// works returns an error if CloudStack does not accept the keys in the Secret of a cluster.
func (e *env) works(t *testing.T) error {
	t.Helper()
	api, err := cloudapi.NewClient(e.config(t))
	require.NoError(t, err)
	_, err = api.Capabilities(t.Context())
	return err
}

// Two clusters of one account have a user each, and nothing that csccm does in one ends the keys of the other.
func TestClustersOfOneAccountHaveUsersOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, e *env){
		"rotate-keys":             func(t *testing.T, e *env) { t.Helper(); e.rotate(t); e.rotate(t) },
		"uninstall --delete-user": func(t *testing.T, e *env) { t.Helper(); e.uninstall(t, false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newEnvOf(t, simulator.ExampleWorld(), testenv.Owner, demoNodes()...)
			a.onePod()
			b := a.second(t, "another-cluster")
			a.install(t, a.admin())
			b.install(t, b.admin())
			require.NotEqual(t, a.config(t).APIKey, b.config(t).APIKey)
			require.Contains(t, b.Stderr.String(), `user "kubeadmin-2" in account "k8s"`)

			do(t, a)
			require.NoError(t, b.works(t))

			do(t, b)
			b.install(t, b.admin())
			require.NoError(t, b.works(t))
		})
	}
}

// A user whom another cluster created is not taken, not even by name.
func TestUserOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	a := newEnv(t)
	b := a.second(t, "another-cluster")
	a.install(t, a.admin())
	o := b.admin()
	o.User = "kubeadmin"
	testenv.RequireRefusal(t, b.installer(t, o).Run(t.Context()),
		`user "kubeadmin" of account "k8s" is that of cluster the-cluster`, "--controller-user", report.ExitUsage)
}

// The keys of a user that another cluster or a person created are kept, because others may use them.
func TestKeysOfAnotherUserAreNeverRevoked(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(e *env) Config{
		"keys that were given": func(e *env) Config { return e.keys(t) },
		"a user that was there": func(e *env) Config {
			c := e.admin()
			c.User = testenv.Owner
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newEnv(t)
			a.onePod()
			b := a.second(t, "another-cluster")
			a.install(t, made(a))
			b.install(t, made(b))

			a.rotate(t)
			require.Contains(t, a.Stdout.String(), `user "`+testenv.Owner+`" was not created for this cluster`)
			require.NotEqual(t, a.config(t).APIKey, b.config(t).APIKey)
			require.NoError(t, b.works(t))

			a.uninstall(t, false)
			require.NoError(t, b.works(t))
		})
	}
}
