// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/takeover"
)

const (
	apacheDeployment = `{"metadata":{"namespace":"kube-system","name":"cloud-controller-manager","labels":{"k8s-app":"cloud-controller-manager"}},
		"spec":{"replicas":1,"selector":{"matchLabels":{"k8s-app":"cloud-controller-manager"}},"template":{"spec":{"containers":[
		{"name":"cloud-controller-manager","image":"apache/cloudstack-kubernetes-provider:v1.2.0","args":["--cloud-provider=external-cloudstack"]}]}}}}`
	ourDeployment = `{"metadata":{"namespace":"kube-system","name":"ours","labels":{"app.kubernetes.io/name":"cloudstack-ccm","app.kubernetes.io/instance":"cloudstack-ccm"},
		"annotations":{"meta.helm.sh/release-name":"cloudstack-ccm"}},"spec":{"replicas":1,"selector":{},"template":{"spec":{"containers":[{"name":"c","image":"x",
		"args":["--tenancy={\"annotations\":{\"proxy-protocol\":{\"deny\":true}}}"]}]}}}}`
)

func TestTakeoverPlans(t *testing.T) {
	t.Parallel()
	a, cloud, file := leftCluster(t)
	base := []string{"takeover", "--server", a.url, "--cloud-config", file, "--record-dir", t.TempDir()}

	// Unattended, and nobody agreed: exit code 3, in every format.
	for _, more := range [][]string{{"--yes"}, {"--dry-run"}, {"--yes", "-o", "json"}} {
		c := execute(t, append(base, more...)...)
		require.Equal(t, 3, c.code, c.errOut)
		require.Contains(t, c.errOut, "default/documented: the protocol of port 8080 changes")
		require.Contains(t, c.errOut, "  fix: ")
	}
	c := execute(t, append(base, "--dry-run", "--accept", "all", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var r takeover.Result
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.Equal(t, takeover.OursFirst, r.Order)
	require.Equal(t, takeover.StatePlanned, r.State)
	require.Len(t, r.Services, 6)
	require.Equal(t, map[string]string{"instanceTypeFormat": "upstream"}, r.Values)

	// A name that is no Service's would keep nothing.
	c = execute(t, append(base, "--yes", "--accept", "all", "--pin", "default/docmented")...)
	require.Equal(t, 2, c.code, c.errOut)
	require.Contains(t, c.errOut, "no Service of type LoadBalancer of the controller's: default/docmented; nothing was changed")

	// Without --yes nothing happens either, and the missing flag is named.
	for _, more := range [][]string{nil, {"-o", "json"}} {
		c = execute(t, append(append(base, "--accept", "all"), more...)...)
		require.Equal(t, 2, c.code, c.errOut)
	}
	requireOnlyReads(t, cloud)

	a.set("/apis/apps/v1/deployments", "[]")
	c = execute(t, append(base, "--yes")...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "nothing to take over")
}

// Where csccm's controller is installed already, the takeover shows what its policy for tenants refuses, and the values
// that keep it.
func TestTakeoverShowsThePolicy(t *testing.T) {
	t.Parallel()
	a, _, file := leftCluster(t)
	a.set("/apis/apps/v1/deployments", "["+apacheDeployment+","+ourDeployment+"]")
	base := []string{"takeover", "--server", a.url, "--cloud-config", file, "--record-dir", t.TempDir(), "--dry-run", "--accept", "all"}
	c := execute(t, base...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "The policy for tenants (chart value tenancy) refuses what Services use now:\n! default/documented: ")
	require.Contains(t, c.out, "Chart values that keep them, to be set before:\ntenancy:\n  annotations:\n    proxy-protocol:\n      allow:\n      - default\n")
	c = execute(t, append(base, "-o", "json")...)
	var r takeover.Result
	require.NoError(t, json.Unmarshal([]byte(c.out), &r), c.errOut)
	require.Contains(t, r.Tenants.Kept(), "default/documented")
}

// keptOld adds the record of a takeover that kept the old controller. deployments returns both, the old one with replicas.
func keptOld(t *testing.T, a *fakeCluster) (deployments func(replicas int) string) {
	t.Helper()
	const record = `{"schemaVersion":2,"time":"2026-03-14T15:09:26Z","server":"x","lease":{"namespace":"kube-system","name":"cloud-controller-manager"},
		"predecessors":[{"family":"apache","kind":"Deployment","namespace":"kube-system","name":"cloud-controller-manager","wanted":2}],"services":[],
		"pinned":[{"service":"default/documented","annotation":"service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol","value":"enabled","before":null}]}`
	a.setJSON(t, "/api/v1/namespaces/kube-system/configmaps/csccm-takeover",
		map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": map[string]string{"20260314T150926.000Z.json": record}})
	deployments = func(replicas int) string {
		return "[" + strings.Replace(apacheDeployment, `"replicas":1`, fmt.Sprintf(`"replicas":%d`, replicas), 1) + "," + ourDeployment + "]"
	}
	return deployments
}

// undoneCluster is a cluster after a takeover with --keep-old.
func undoneCluster(t *testing.T) (a *fakeCluster, file string) {
	t.Helper()
	a, _, file = leftCluster(t)
	a.set("/apis/apps/v1/deployments", keptOld(t, a)(0))
	return a, file
}

// The way back is shown and asked for as the way there, by the record in the cluster.
func TestTakeoverUndoPlans(t *testing.T) {
	t.Parallel()
	a, cloud, file := leftCluster(t)
	base := []string{"takeover", "--undo", "--server", a.url, "--cloud-config", file, "--record-dir", t.TempDir()}
	for flag, value := range map[string]string{"--accept": "all", "--pin": "all", "--keep-old": "true"} {
		c := execute(t, append(base, flag+"="+value)...)
		require.Equal(t, 2, c.code, c.errOut)
		require.Contains(t, c.errOut, "--undo goes back by the record alone")
	}
	c := execute(t, base...)
	require.Equal(t, 1, c.code, c.errOut)
	require.Contains(t, c.errOut, "ConfigMap kube-system/csccm-takeover holds no record of a takeover\n  fix: name the namespace")

	deployments := keptOld(t, a)
	a.set("/apis/apps/v1/deployments", deployments(1))
	c = execute(t, append(base, "--yes")...)
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "runs already", "two would act")

	a.set("/apis/apps/v1/deployments", `[]`)
	c = execute(t, append(base, "--yes", "-o", "json")...)
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "was removed: the takeover was without --keep-old\n  fix: apply its manifest again with no Pods (replicas: 0)")
	require.True(t, json.Valid([]byte(c.out)), c.out)

	a.set("/apis/apps/v1/deployments", deployments(0))
	c = execute(t, append(base, "--dry-run", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var r takeover.UndoResult
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.Equal(t, takeover.StatePlanned, r.State)
	require.Equal(t, []string{"Deployment kube-system/ours"}, r.Ours)
	require.Len(t, r.Predecessors, 1)
	require.EqualValues(t, 2, r.Predecessors[0].Wanted)
	require.Len(t, r.Annotations, 1)
	c = execute(t, base...)
	require.Contains(t, c.out, "Ends first: Deployment kube-system/ours")
	require.Contains(t, c.out, "Starts then: Deployment kube-system/cloud-controller-manager")
	require.Contains(t, c.out, "with 2 Pods again")
	requireOnlyReads(t, cloud)
}

func TestCKS(t *testing.T) {
	t.Parallel()
	a, _, file := leftCluster(t)
	c := execute(t, "cks", "--server", a.url, "--cloud-config", file)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "not made by CKS")

	// As CKS makes one, and somebody removed its provider.
	a.set("/api/v1/nodes", `[{"metadata":{"name":"k-control-18f0a1b2c3d"}}]`)
	a.set("/api/v1/namespaces/kube-system/configmaps/kubeadm-config", `{"kind":"ConfigMap","apiVersion":"v1"}`)
	a.set("/api/v1/namespaces/kube-system/secrets/cloudstack-secret", `{"kind":"Secret","apiVersion":"v1"}`)
	a.set("/apis/apps/v1/namespaces/kube-system/deployments/cloud-controller-manager", `{"kind":"Deployment","apiVersion":"apps/v1"}`)
	c = execute(t, "cks", "--server", a.url, "--cloud-config", file)
	require.Equal(t, 3, c.code, c.out+c.errOut)
	require.Contains(t, c.out, "CKS will deploy its own provider")
	c = execute(t, "cks", "--server", a.url, "--cloud-config", file, "-o", "json")
	require.Equal(t, 3, c.code, "the same exit code in every format")
	require.True(t, json.Valid([]byte(c.out)))
}
