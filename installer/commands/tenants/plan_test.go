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
		manifest, deployed string
		strict             bool
		services           []corev1.Service
		lines              []string // nil for no plan
		kept               []string
	}{
		"a chart without a policy": {manifest(""), "", false, services, nil, nil},
		"nothing refused":          {manifest(policy), "", false, services[2:], nil, nil},
		"first install": {manifest(policy), "", false, services, []string{
			"Service a/web is kept by a chart value: ", "Service b/new is refused; it has no address yet: ",
		}, []string{"a/web"}},
		"after a version without a policy": {manifest(policy), manifest(""), false, services, []string{
			"Service a/web is kept by a chart value: ", "Service b/new is refused; it has no address yet: ",
		}, []string{"a/web"}},
		"strict": {manifest(policy), "", true, services, []string{
			"Service a/web is refused: ", "Service b/new is refused; it has no address yet: ",
		}, nil},
		"a policy is in force already": {manifest(policy), manifest(policy), false, services, []string{
			"Service a/web is refused: ", "Service b/new is refused; it has no address yet: ",
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := NewPlan(tt.manifest, tt.deployed, tt.strict, View{Services: tt.services})
			require.NoError(t, err)
			if tt.lines == nil {
				require.Nil(t, p)
				return
			}
			require.Equal(t, tt.kept, p.Kept())
			require.Equal(t, tt.kept != nil, p.Values != nil)
			got := p.Lines()
			require.Len(t, got, len(tt.lines))
			for i := range got {
				require.Contains(t, got[i], tt.lines[i])
			}
			require.Empty(t, p.strict().Kept())
			require.Nil(t, p.strict().Values)
		})
	}
	_, err := NewPlan(manifest(`, '--tenancy={'`), "", false, View{})
	require.ErrorContains(t, err, "tenancy")
	p, err := NewPlan(manifest(policy), "", false, View{Services: services})
	require.NoError(t, err)
	require.Equal(t, "Keep the Service a/web by chart values (tenancy)", p.question())
}
