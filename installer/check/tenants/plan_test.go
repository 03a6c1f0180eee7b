// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestNewPlan(t *testing.T) {
	t.Parallel()
	manifest := func(flag string) string {
		return "---\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a, args: ['--v=2'" + flag + "]}]}}}\n"
	}
	const policy = `, '--tenancy={"annotations":{"network":{"deny":true}}}'`
	services := []corev1.Service{
		service("a/web", "192.0.2.1", with("network", "n")), service("b/new", "", with("network", "n")), service("c/web", "192.0.2.2"),
	}
	for name, tt := range map[string]struct {
		manifest string
		services []corev1.Service
		lines    []string // nil for no plan
	}{
		"a chart without a policy": {manifest(""), services, nil},
		"nothing refused":          {manifest(policy), services[2:], nil},
		"refused": {manifest(policy), services, []string{
			"Service a/web is refused: ", "Service b/new is refused; it has no address yet: ",
			"these flags allow what the Services with an address use: --set 'tenancy.annotations.network.allow[0]=a'",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := PlanOf(t.Context(), nil, WordsOfManifest(tt.manifest), View{Services: tt.services})
			require.NoError(t, err)
			if tt.lines == nil {
				require.Nil(t, p)
				return
			}
			got := p.Lines()
			require.Len(t, got, len(tt.lines))
			for i := range got {
				require.Contains(t, got[i], tt.lines[i])
			}
		})
	}
	_, err := PlanOf(t.Context(), nil, WordsOfManifest(manifest(`, '--tenancy={'`)), View{})
	require.ErrorContains(t, err, "tenancy")
}

func TestFlags(t *testing.T) {
	t.Parallel()
	require.Equal(t, "--set tenancy.limits.ports=3 --set 'x[0]=a' --set 'x[1]=b\\,c'",
		Flags(map[string]any{"x": []any{"a", "b,c"}, "tenancy": map[string]any{"limits": map[string]any{"ports": 3}}}))
	require.Empty(t, Flags(nil))
	require.Empty(t, Flags(map[string]any{"x": []any{map[string]any{}}}))
}
