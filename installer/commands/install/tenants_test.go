// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// usesNetwork is a cluster with a Service that the default policy refuses, and its rules.
func usesNetwork(t *testing.T) *env {
	t.Helper()
	e := newEnv(t)
	e.Releases.Render = true
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "01234567-89ab-cdef-0123-456789abcdef", Annotations: map[string]string{annotation.Network: "k8s-net"},
	}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	require.NoError(t, e.Kube.Tracker().Add(s))
	return e
}

// An install names what the policy for tenants refuses, and allows nothing by itself.
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

func TestRefused(t *testing.T) {
	t.Parallel()
	manifest := func(flag string) string {
		return "---\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a, args: ['--v=2'" + flag + "]}]}}}\n"
	}
	const policy = `, '--tenancy={"annotations":{"network":{"deny":true}}}'`
	service := func(namespace, key string, addresses ...corev1.LoadBalancerIngress) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{key: "n"}}}
		s.Spec.Type, s.Status.LoadBalancer.Ingress = corev1.ServiceTypeLoadBalancer, addresses
		return s
	}
	web, next := service("a", annotation.Prefix+"network", corev1.LoadBalancerIngress{IP: "192.0.2.1"}), service("b", annotation.Prefix+"network")
	plain := service("c", "other", corev1.LoadBalancerIngress{IP: "192.0.2.2"})
	for name, tt := range map[string]struct {
		manifest string
		lines    []string
	}{
		"a chart without a policy": {manifest(""), nil},
		"refused":                  {manifest(policy), []string{"Service a/web is refused: ", "Service b/web is refused; it has no address yet: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			e := &engine.Env{Cluster: cluster.NewForTest(fakekube.New(web, next, plain)), Progress: report.NewProgress(&said, report.Style{}, nil)}
			warned, err := refused(t.Context(), e, tt.manifest)
			require.NoError(t, err)
			require.Len(t, warned, len(tt.lines))
			for _, line := range tt.lines {
				require.Contains(t, said.String(), line)
			}
		})
	}
	_, err := refused(t.Context(), nil, manifest(`, '--tenancy={'`))
	require.ErrorContains(t, err, "tenancy")
}
