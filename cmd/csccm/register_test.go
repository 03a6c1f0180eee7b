// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/register"
	"github.com/csccm/csccm/installer/testenv"
)

// kubeSystem is the namespace whose UID identifies the cluster.
const kubeSystem = `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"5d0c1a52-0000-4000-8000-00000000abcd"}}`

// controllerWith is the list of Deployments with a controller that has another flag.
func controllerWith(flag string) string {
	return `[{"metadata":{"namespace":"kube-system","name":"cloudstack-cloud-controller-manager"},"spec":{"template":{"spec":{"containers":[` +
		`{"name":"ccm","args":["--cloud-provider=external-cloudstack","` + flag + `"]}]}}}}]`
}

// registeredCluster is a cluster of the example world that csccm register has registered as prod, and the flags that lead to it.
func registeredCluster(t *testing.T) (a *fakeCluster, cloud *testenv.Cloud, flags []string) {
	t.Helper()
	a = newFakeCluster(t)
	a.set("/api/v1/namespaces/kube-system", kubeSystem)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"demo-cp-1","labels":{"node-role.kubernetes.io/control-plane":""}}},{"metadata":{"name":"demo-worker-1"}}]`)
	cloud, file := cloudConfig(t)
	flags = []string{"--server", a.url, "--cloud-config", file}
	c := execute(t, slices.Concat([]string{"register", "prod", "--yes"}, flags)...)
	require.Equal(t, 0, c.code, c.errOut)
	return a, cloud, flags
}

func TestRegisterAndUnregister(t *testing.T) {
	t.Parallel()
	_, cloud, flags := registeredCluster(t)
	run := func(args ...string) command {
		c := execute(t, append(args, flags...)...)
		require.NotContains(t, c.out+c.errOut, cloud.Config(t, "").SecretKey)
		return c
	}
	c := run("register", "-o", "json")
	require.Equal(t, 0, c.code, "there is nothing to do, and nothing to ask: "+c.errOut)
	var r register.Result
	require.NoError(t, json.Unmarshal([]byte(c.out), &r), c.out)
	require.Equal(t, "prod", r.Name)
	require.Empty(t, r.Changes)
	require.Equal(t, 1, cloud.Ledger().Count("createKubernetesCluster"))

	c = run("unregister", "--dry-run")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "Delete entry prod")
	require.Zero(t, cloud.Ledger().Count("deleteKubernetesCluster"))
	c = run("unregister", "--yes", "-o", "yaml")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "done: true")
	c = run("unregister", "--yes")
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "nothing to delete")
	require.Equal(t, 1, cloud.Ledger().Count("deleteKubernetesCluster"))

	c = run("register")
	require.Equal(t, 2, c.code)
	require.Contains(t, c.errOut, "fix: csccm register NAME")
}
