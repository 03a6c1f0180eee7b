// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	text := func(rs []Request) []string {
		var out []string
		for _, r := range rs {
			out = append(out, r.String())
		}
		return out
	}
	needed, optional := Requests("install", "infra", nil)
	all := text(needed)
	require.NotContains(t, all, "create namespaces", "only if the namespace does not exist")
	require.NotContains(t, all, "create daemonsets.apps in infra", "not by default")
	require.NotContains(t, all, "patch daemonsets.apps in kube-system", "only for takeover")
	require.Subset(t, text(optional), []string{"get nodes/proxy", "get pods/proxy in infra"})
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "each once")

	needed, _ = Requests("install", "infra", []schema.GroupResource{{Group: "apps", Resource: "daemonsets"}})
	require.Contains(t, text(needed), "create daemonsets.apps in infra")
	require.NotContains(t, text(needed), "create deployments.apps in infra", "the chart has no Deployment")

	needed, _ = Requests("takeover", "infra", nil)
	require.Contains(t, text(needed), "patch deployments.apps in kube-system")
	needed, optional = Requests("no such command", "infra", nil)
	require.Empty(t, needed)
	require.Empty(t, optional)
}
