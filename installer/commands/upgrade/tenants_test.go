// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/annotation"
)

func TestUpgradeKeepsServicesOfThePolicy(t *testing.T) {
	t.Parallel()
	embedded, err := helm.Embedded()
	require.NoError(t, err)
	const enforced = "kind: Deployment\nspec: {template: {spec: {containers: [{name: a, args: ['--tenancy={}']}]}}}\n"
	for name, tt := range map[string]struct {
		deployed string
		strict   bool
		kept     bool
	}{
		"from a version without a policy":         {"kind: Deployment\n", false, true},
		"from a version without a policy, strict": {"kind: Deployment\n", true, false},
		"under a policy":                          {enforced, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := release(1, "deployed", "0.0.1", nil)
			was.Manifest = tt.deployed
			e := newEnv(t, was)
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{annotation.Network: "n"}}}
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
			require.NoError(t, e.Kube.Tracker().Add(s))
			p, err := newPlan(t.Context(), e.Env, Options{Chart: embedded, StrictTenancy: tt.strict, KubeVersion: testenv.KubeVersion}, &was)
			require.NoError(t, err)
			require.NotNil(t, p.Tenants)
			if !tt.kept {
				require.Empty(t, p.Values)
				require.Contains(t, e.Stderr.String(), "Service shop/web is refused")
				return
			}
			require.Equal(t, map[string]any{"tenancy": map[string]any{"annotations": map[string]any{"network": map[string]any{"allow": []any{"shop"}}}}}, p.Values)
			require.Contains(t, e.Stderr.String(), "chart values keep shop/web (--strict-tenancy leaves them refused)")
			require.Contains(t, p.manifest, `\"allow\":[\"shop\"]`)
		})
	}
}
