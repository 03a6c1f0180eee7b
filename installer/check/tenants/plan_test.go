// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestPlanOf(t *testing.T) {
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
		lines    []string
	}{
		"a chart without a policy": {manifest(""), services, nil},
		"nothing refused":          {manifest(policy), services[2:], nil},
		"refused":                  {manifest(policy), services, []string{"Service a/web is refused: ", "Service b/new is refused; it has no address yet: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused, err := PlanOf(t.Context(), nil, wordsOfManifest(tt.manifest), View{Services: tt.services})
			require.NoError(t, err)
			require.Len(t, refused, len(tt.lines))
			for i := range refused {
				require.Contains(t, refused[i].String(), tt.lines[i])
			}
		})
	}
	_, err := PlanOf(t.Context(), nil, wordsOfManifest(manifest(`, '--tenancy={'`)), View{})
	require.ErrorContains(t, err, "tenancy")
}
