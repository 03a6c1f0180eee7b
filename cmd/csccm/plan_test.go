// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/plan"
)

// serviceForPlan is a Service of the example world that has no address yet.
const serviceForPlan = `{"metadata":{"namespace":"default","name":"web","uid":"01234567-89ab-cdef-0123-456789abcdff"},
	"spec":{"type":"LoadBalancer","ports":[{"name":"http","protocol":"TCP","port":8080,"nodePort":31080}]}}`

const nodesForPlan = `[{"metadata":{"name":"demo-worker-1"}},{"metadata":{"name":"demo-worker-2"}},
	{"metadata":{"name":"demo-cp-1","labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}]`

func TestPlan(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	cloud, file := cloudConfig(t)
	secretKey := cloud.Config(t, "").SecretKey
	a.set("/api/v1/nodes", nodesForPlan)
	base := []string{"plan", "--detailed-exitcode", "--server", a.url, "--cloud-config", file}

	c := execute(t, base...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Contains(t, c.out, "No Service of type LoadBalancer.")

	a.set("/api/v1/services", "["+serviceForPlan+"]")
	c = execute(t, base...)
	require.Equal(t, 2, c.code, c.errOut)
	require.Empty(t, c.errOut)
	require.Contains(t, c.out, "+ acquire an address in network ")
	require.Contains(t, c.out, "(8080 to node port 31080, tcp, roundrobin)")
	require.Contains(t, c.out, "add 2 members to the rule of port 8080")
	require.Contains(t, c.out, "1 Service: 1 with ")
	for _, call := range cloud.Ledger().Calls() {
		require.True(t, strings.HasPrefix(call.Command, "list"), "%s is no read", call.Command)
	}

	for _, format := range []string{"json", "yaml"} {
		c = execute(t, append(base, "-o", format, "default/web")...)
		require.Equal(t, 2, c.code, c.errOut)
		require.NotContains(t, c.out, secretKey)
	}
	require.Contains(t, c.out, "clusterID: 5d0c1a52-0000-4000-8000-00000000abcd\n")
	c = execute(t, append(base, "-o", "json", "--cluster-id", "other")...)
	var r plan.Report
	require.NoError(t, json.Unmarshal([]byte(c.out), &r))
	require.Equal(t, "other", r.Settings.ClusterID)
	require.Equal(t, plan.Summary{Services: 1, Changing: 1, Actions: r.Summary.Actions}, r.Summary)
	require.NotZero(t, r.Summary.Actions)

	c = execute(t, "plan", "--server", a.url, "--cloud-config", file)
	require.Equal(t, 0, c.code, c.errOut)
	require.Equal(t, 1, execute(t, append(base, "a")...).code, "2 is something to do")
	require.Equal(t, 2, execute(t, "plan", "a").code)

	// Of a Service that is refused it says why, and what would be right.
	a.set("/api/v1/services", "["+strings.NewReplacer(`"type":"LoadBalancer",`, `"type":"LoadBalancer","loadBalancerIP":"203.0.113.20",`, "8080", "80").Replace(serviceForPlan)+"]")
	c = execute(t, base...)
	require.Equal(t, 2, c.code, c.errOut)
	require.Contains(t, c.out, "refused: PortTaken")
	require.Contains(t, c.out, "fix: ")
}

// A CloudStack that cannot be read is an error, not a plan without actions.
func TestPlanWithoutCloudStack(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	a.set("/api/v1/nodes", nodesForPlan)
	a.set("/api/v1/services", "["+serviceForPlan+"]")
	file := filepath.Join(t.TempDir(), "cloud-config")
	require.NoError(t, os.WriteFile(file, []byte("[Global]\napi-url = http://127.0.0.1:1/client/api\napi-key = a\nsecret-key = b\n"), 0o600))
	c := execute(t, "plan", "--server", a.url, "--cloud-config", file)
	require.Equal(t, 1, c.code, c.out+c.errOut)
	require.Empty(t, c.out)
	require.Contains(t, c.errOut, "cannot reach the API")
	require.Contains(t, c.errOut, "fix: check api-url in the cloud-config")
}
