// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/takeover"
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
	base := []string{"takeover", "--server", a.url, "--cloud-config", file}

	// Unattended, and nobody agreed: exit code 3, in every format.
	for _, more := range [][]string{{"--yes"}, {"--dry-run"}, {"--yes", "-o", "json"}} {
		c := execute(t, append(base, more...)...)
		require.Equal(t, 3, c.code, c.errOut)
		require.Contains(t, c.errOut, "default/documented: the protocol of port 8080 changes")
		require.Contains(t, c.errOut, "  fix: ")
	}
	c := execute(t, append(base, "--dry-run", "--accept", "all", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var r takeover.Plan
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

// Where csccm's controller is installed already, a Service that its policy for tenants refuses needs consent.
func TestTakeoverShowsThePolicy(t *testing.T) {
	t.Parallel()
	a, _, file := leftCluster(t)
	a.set("/apis/apps/v1/deployments", "["+apacheDeployment+","+ourDeployment+"]")
	c := execute(t, "takeover", "--server", a.url, "--cloud-config", file, "--dry-run", "--pin", "all")
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "default/documented: it would be left unchanged and no longer be updated: ")
	require.Contains(t, c.errOut, `("enabled") is not allowed in namespace default`)
}

// keptOld adds what a takeover keeps on a Service and on the old controller. deployments returns both, the old one with replicas.
func keptOld(t *testing.T, a *fakeCluster) (deployments func(replicas int) string) {
	t.Helper()
	const pinned = `"service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol":"enabled"`
	services := a.objects["/api/v1/services"]
	require.Contains(t, services, pinned)
	a.set("/api/v1/services", strings.Replace(services, pinned, pinned+`,"`+takeover.BeforeAnnotation+
		`":"{\"annotations\":{\"service.beta.kubernetes.io/cloudstack-load-balancer-proxy-protocol\":{\"was\":null,\"set\":\"enabled\"}}}"`, 1))
	old := strings.Replace(apacheDeployment, `"labels":`, `"annotations":{"csccm.io/replicas-before-takeover":"2"},"labels":`, 1)
	deployments = func(replicas int) string {
		return "[" + strings.Replace(old, `"replicas":1`, fmt.Sprintf(`"replicas":%d`, replicas), 1) + "," + ourDeployment + "]"
	}
	return deployments
}

// The way back is shown and asked for as the way there, by the record in the cluster.
func TestTakeoverUndoPlans(t *testing.T) {
	t.Parallel()
	a, cloud, file := leftCluster(t)
	base := []string{"takeover", "--undo", "--server", a.url, "--cloud-config", file}
	for flag, value := range map[string]string{"--accept": "all", "--pin": "all"} {
		c := execute(t, append(base, flag+"="+value)...)
		require.Equal(t, 2, c.code, c.errOut)
		require.Contains(t, c.errOut, "--undo goes back to what was")
	}
	a.set("/apis/apps/v1/deployments", "["+ourDeployment+"]")
	c := execute(t, base...)
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "no controller that a takeover stopped is in the cluster")

	deployments := keptOld(t, a)
	a.set("/apis/apps/v1/deployments", deployments(1))
	c = execute(t, append(base, "--yes")...)
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "runs already", "two would act")

	a.set("/apis/apps/v1/deployments", `[]`)
	c = execute(t, append(base, "--yes", "-o", "json")...)
	require.Equal(t, 3, c.code, c.errOut)
	require.Contains(t, c.errOut, "no controller that a takeover stopped is in the cluster: it was deleted, or there was none\n  fix: apply the old controller's manifest again with no Pods (replicas: 0, ")
	require.True(t, json.Valid([]byte(c.out)), c.out)

	a.set("/apis/apps/v1/deployments", deployments(0))
	c = execute(t, append(base, "--dry-run", "-o", "json")...)
	require.Equal(t, 0, c.code, c.errOut)
	var r takeover.Plan
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.Equal(t, takeover.StatePlanned, r.State)
	require.Len(t, r.Predecessors, 1)
	require.EqualValues(t, 2, r.Predecessors[0].Wanted)
	require.Len(t, r.Services, 1)
	require.Len(t, r.Services[0].Changes, 1)
	c = execute(t, base...)
	require.Contains(t, c.out, "Ends first: Deployment kube-system/ours")
	require.Contains(t, c.out, "Starts then: Deployment kube-system/cloud-controller-manager")
	require.Contains(t, c.out, ", 2 wanted\n")
	requireOnlyReads(t, cloud)
}
