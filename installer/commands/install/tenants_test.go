// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
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

func TestInstallKeepsServicesOfThePolicy(t *testing.T) {
	t.Parallel()
	allowed := map[string]any{"annotations": map[string]any{"network": map[string]any{"allow": []any{"shop"}}}}
	for name, tt := range map[string]struct {
		change func(o *Options, e *env)
		kept   bool
		says   []string
	}{
		"unattended": {func(*Options, *env) {}, true, []string{
			"Service shop/web is kept by a chart value", "chart values keep shop/web: tenancy.annotations.network.allow=[shop]", "--strict-tenancy leaves them refused",
		}},
		"strict":                 {func(o *Options, _ *env) { o.StrictTenancy = true }, false, []string{"Service shop/web is refused"}},
		"asked, yes":             {func(_ *Options, e *env) { e.Answers("yes", "yes") }, true, []string{"Keep the Service shop/web by chart values (tenancy)"}},
		"asked, no":              {func(_ *Options, e *env) { e.Answers("no", "yes") }, false, []string{"Keep the Service shop/web by chart values (tenancy)"}},
		"the operator allows it": {func(o *Options, _ *env) { o.Values = map[string]any{"tenancy": allowed} }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := usesNetwork(t)
			o := e.keys(t)
			o.SkipTaint = true
			tt.change(&o, e)
			in := e.install(t, o)
			e.Yes = true
			for _, says := range tt.says {
				require.Contains(t, e.Stderr.String(), says)
			}
			if tt.says == nil {
				require.NotContains(t, e.Stderr.String(), "shop/web")
			}
			require.Equal(t, !tt.kept, strings.Contains(strings.Join(in.FlagLine(), " "), "--strict-tenancy"))
			if !tt.kept {
				require.NotContains(t, e.Releases.Release().Values, "tenancy")
				return
			}
			require.Equal(t, allowed, e.Releases.Release().Values["tenancy"])
			require.Contains(t, e.Releases.Release().Manifest, `\"allow\":[\"shop\"]`)

			// The same again: nothing is refused, and no new revision is made.
			e.Stderr.Reset()
			e.install(t, Options{SkipTaint: true})
			require.NotContains(t, e.Stderr.String(), "shop/web")
			require.Equal(t, 1, e.Releases.Applied)
		})
	}
}

// What a tenant asks for while a policy is in force is not allowed by running csccm again.
func TestInstallKeepsNothingUnderAPolicy(t *testing.T) {
	t.Parallel()
	e := usesNetwork(t)
	e.install(t, e.keys(t))
	s, err := e.Kube.CoreV1().Services("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	s.Namespace, s.UID = "guest", "another"
	_, err = e.Kube.CoreV1().Services("guest").Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
	e.Stderr.Reset()
	e.install(t, Options{})
	require.Contains(t, e.Stderr.String(), "Service guest/web is refused")
	require.Equal(t, 1, e.Releases.Applied)
	require.NotContains(t, e.Releases.Release().Manifest, `\"guest\"`)
}

// A dry run shows what would be kept, and the values.
func TestDryRunShowsThePolicy(t *testing.T) {
	t.Parallel()
	e := usesNetwork(t)
	o := e.keys(t)
	e.Yes, e.DryRun, e.Output = false, true, "json"
	e.install(t, o)
	var p Plan
	require.NoError(t, json.Unmarshal(e.Stdout.Bytes(), &p))
	require.NotNil(t, p.Tenants)
	require.Equal(t, []string{"shop/web"}, p.Tenants.Kept())
	require.Equal(t, p.Tenants.Values["tenancy"], p.Chart.Values["tenancy"])
	e.Stdout.Reset()
	e.Output = "text"
	e.install(t, o)
	require.Contains(t, e.Stdout.String(), "  Tenants     the policy (chart value tenancy)")
	require.Contains(t, e.Stdout.String(), "! Service shop/web is kept by a chart value")
	require.Zero(t, e.Releases.Applied)
}
