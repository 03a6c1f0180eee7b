// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTable(t *testing.T) {
	t.Parallel()
	table := Table()
	for i := range table {
		r := &table[i]
		name := strings.Join(r.Verbs, ",") + " " + r.Group + " " + r.Resource
		require.NotEmpty(t, r.Verbs, name)
		require.NotEmpty(t, r.Commands, name)
		require.NotEmpty(t, r.Why, name)
		require.NotContains(t, r.Resource+r.Group+strings.Join(r.Verbs, ""), "*", name)
		for j := range i {
			o := &table[j]
			require.NotEqual(t, *o, *r, "%s is there twice", name)
		}
	}
}

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
	require.Subset(t, all, []string{
		"patch nodes", "list daemonsets.apps", "create secrets in infra", "get configmaps in kube-system", "create pods in infra", "delete pods in infra",
		"get pods/log in infra", "create deployments.apps in infra", "create clusterroles.rbac.authorization.k8s.io", "list leases.coordination.k8s.io in kube-node-lease",
	})
	require.NotContains(t, all, "create namespaces", "only if the namespace does not exist")
	require.NotContains(t, all, "create daemonsets.apps in infra", "not by default")
	require.NotContains(t, all, "patch daemonsets.apps in kube-system", "only for takeover")
	require.ElementsMatch(t, []string{
		"get nodes/proxy", "get pods/proxy in infra", "list namespaces", "list validatingadmissionpolicies.admissionregistration.k8s.io",
		"list validatingadmissionpolicybindings.admissionregistration.k8s.io",
		"get csidrivers.storage.k8s.io",
	}, text(optional))
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "each once")

	needed, _ = Requests("install", "infra", []schema.GroupResource{{Group: "apps", Resource: "daemonsets"}})
	require.Contains(t, text(needed), "create daemonsets.apps in infra")
	require.NotContains(t, text(needed), "create deployments.apps in infra", "the chart has no Deployment")

	needed, _ = Requests("takeover", "infra", nil)
	require.Subset(t, text(needed), []string{"patch deployments.apps in kube-system", "update leases.coordination.k8s.io in kube-system"})
	needed, optional = Requests("no such command", "infra", nil)
	require.Empty(t, needed)
	require.Empty(t, optional)
}
