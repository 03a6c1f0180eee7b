// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csccm/csccm/installer/kube/rights"
)

func TestRolesAreGenerated(t *testing.T) {
	t.Parallel()
	want, err := roles()
	require.NoError(t, err)
	have, err := os.ReadFile("../../../../docs/csccm-rights.yaml")
	require.NoError(t, err)
	require.Equal(t, want, string(have), "run: go generate ./installer/kube/rights")
	require.Contains(t, want, "  resourceNames:\n  - system:auth-delegator\n  resources:\n  - clusterroles\n  verbs:\n  - bind\n")
	_, reader, ok := strings.Cut(want, "kind: ClusterRole\nmetadata:\n  name: "+rights.Reader)
	require.True(t, ok)
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		require.NotContains(t, reader, "- "+verb+"\n")
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	chart := granted{
		rights.Everywhere: {{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete"}}},
		rights.System:     {{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"one"}, Verbs: []string{"watch"}}},
	}
	all := rules(false, chart, rights.Everywhere)
	can := func(rules []rbacv1.PolicyRule, verb, group, resource string) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return len(r.ResourceNames) == 0 && r.APIGroups[0] == group && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
		})
	}
	require.True(t, can(all, "delete", "", "nodes"), "a permission of the controller, which the chart grants")
	require.True(t, can(all, "patch", "", "nodes"))
	require.False(t, can(all, "list", "", "secrets"), "only in namespaces")
	system := rules(false, chart, rights.System, rights.Release)
	require.True(t, can(system, "list", "", "secrets"))
	require.False(t, can(system, "watch", "", "configmaps"))
	require.Equal(t, chart[rights.System][0], system[len(system)-1], "by name")
}
