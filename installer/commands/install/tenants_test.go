// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
)

// usesNetwork returns a cluster with rules of a Service that the default policy refuses.
func usesNetwork(t *testing.T) *env {
	t.Helper()
	e := newEnv(t)
	e.Releases.Render = true
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace:   "shop",
		Name:        "web",
		UID:         "01234567-89ab-cdef-0123-456789abcdef",
		Annotations: map[string]string{annotation.Network: "k8s-net"},
	}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	require.NoError(t, e.Kube.Tracker().Add(s))
	return e
}

// An install names the Services that the tenancy policy refuses, and does not change the policy.
func TestInstallNamesWhatThePolicyRefuses(t *testing.T) {
	t.Parallel()
	e := usesNetwork(t)
	o := e.keys(t)
	o.SkipTaint = true
	e.DryRun = true
	e.install(t, o)
	require.Contains(t, e.Stdout.String(), "! Service shop/web is refused")
	e.DryRun = false
	e.install(t, o)
	require.Contains(t, e.Stderr.String(), "Service shop/web is refused")
	require.NotContains(t, e.Releases.Release().Values, "tenancy")

	e.Stderr.Reset()
	allowed := map[string]any{"annotations": map[string]any{"network": map[string]any{"allow": []any{"shop"}}}}
	e.install(t, Config{SkipTaint: true, Values: map[string]any{"tenancy": allowed}})
	require.NotContains(t, e.Stderr.String(), "shop/web")
	require.Contains(t, e.Releases.Release().Manifest, `\"allow\":[\"shop\"]`)
}

func TestPolicyOfAChart(t *testing.T) {
	t.Parallel()
	// no policy, and a policy that cannot be parsed
	for flag, says := range map[string]string{"": "", `, '--tenancy={'`: "tenancy"} {
		manifest := "---\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a, args: ['--v=2'" + flag +
			"]}]}}}\n"
		warned, err := refused(t.Context(), nil, manifest)
		require.Empty(t, warned)
		require.Equal(t, says != "", err != nil)
	}
}
