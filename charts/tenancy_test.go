// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/tenancy"
)

// tenancyArgument is the policy that the controller gets.
func tenancyArgument(t *testing.T, v values) tenancy.Policy {
	t.Helper()
	for _, arg := range args(t, v) {
		if text, ok := strings.CutPrefix(arg, "--tenancy="); ok {
			p, err := tenancy.Parse([]byte(text))
			require.NoError(t, err, text)
			return p
		}
	}
	t.Fatal("no --tenancy")
	return tenancy.Policy{}
}

func TestTenancyDefaults(t *testing.T) {
	t.Parallel()
	assert.Equal(t, tenancy.Default(), tenancyArgument(t, nil))
	raw, err := os.ReadFile(filepath.Join(charts.Name, "values.yaml"))
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &all))
	text, err := json.Marshal(all["tenancy"])
	require.NoError(t, err)
	written, err := tenancy.Parse(text)
	require.NoError(t, err)
	assert.Equal(t, tenancy.Default(), written)
	assert.Nil(t, tenancyArgument(t, values{"tenancy": values{"limits": values{"keepIP": values{"maxPerNamespace": nil}}}}).Limits.KeepIP.MaxPerNamespace)
}

func TestTenancyKnowsTheAnnotations(t *testing.T) {
	t.Parallel()
	rules := values{}
	for _, name := range annotation.UserNames() {
		rules[name] = values{"deny": true}
	}
	render(t, values{"tenancy": values{"annotations": rules}})
	_, err := renderWith(values{"tenancy": values{"annotations": values{"networks": values{"deny": true}}}}, load(t))
	require.ErrorContains(t, err, "there is no annotation networks; there are "+strings.Join(annotation.UserNames(), ", "))
}

// Namespaces are read as far as the policy needs them.
func TestTenancyPermissions(t *testing.T) {
	t.Parallel()
	selector := "a=b"
	for name, tc := range map[string]struct {
		v   values
		all bool
	}{
		"default":  {nil, false},
		"names":    {values{"tenancy": values{"annotations": values{"zone": values{"allow": []any{"a", "*"}}}}}, false},
		"trusted":  {values{"tenancy": values{"trustedNamespaces": []any{"a", selector}}}, true},
		"rule":     {values{"tenancy": values{"annotations": values{"zone": values{"allow": []any{selector}}}}}, true},
		"address":  {values{"tenancy": values{"foreignAddress": values{"allow": []any{selector}}}}, true},
		"no nodes": {values{"controllers": []any{"service-lb-controller"}}, false},
	} {
		role := find[*rbacv1.ClusterRole](t, objects(t, render(t, tc.v)))
		at := slices.IndexFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "namespaces") })
		require.GreaterOrEqual(t, at, 0, name)
		want := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}
		if tc.all {
			want.ResourceNames = nil
		}
		assert.Equal(t, want, role.Rules[at], name)
		assert.Equal(t, tc.all, tenancyArgument(t, tc.v).NeedsLabels(), name)
	}
	role := find[*rbacv1.ClusterRole](t, objects(t, render(t, values{"controllers": []any{"cloud-node-controller"}})))
	for _, r := range role.Rules {
		assert.NotContains(t, r.Resources, "namespaces")
	}
}
