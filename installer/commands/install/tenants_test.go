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

	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/pkg/annotation"
)

// usesNetwork is a cluster with a Service that the default policy refuses, and its rules.
func usesNetwork(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, demoNodes()...)
	b.helm.real = true
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "01234567-89ab-cdef-0123-456789abcdef", Annotations: map[string]string{annotation.Network: "k8s-net"},
	}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	_, err := b.kube.CoreV1().Services("shop").Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
	return b
}

func TestInstallKeepsServicesOfThePolicy(t *testing.T) {
	t.Parallel()
	allowed := map[string]any{"annotations": map[string]any{"network": map[string]any{"allow": []any{"shop"}}}}
	for name, tt := range map[string]struct {
		change func(o *Options, in *Installer)
		kept   bool
		says   []string
	}{
		"unattended": {func(*Options, *Installer) {}, true, []string{
			"Service shop/web is kept by a chart value", "chart values keep shop/web: tenancy.annotations.network.allow=[shop]", "--strict-tenancy leaves them refused",
		}},
		"strict": {func(o *Options, _ *Installer) { o.StrictTenancy = true }, false, []string{"Service shop/web is refused"}},
		"asked, yes": {func(o *Options, in *Installer) {
			o.Yes, in.Interactive = false, true
			in.Prompt = prompt.NewLines(strings.NewReader("yes\nyes\n"), in.ErrOut)
		}, true, []string{"Keep the Service shop/web by chart values (tenancy)"}},
		"asked, no": {func(o *Options, in *Installer) {
			o.Yes, in.Interactive = false, true
			in.Prompt = prompt.NewLines(strings.NewReader("no\nyes\n"), in.ErrOut)
		}, false, []string{"Keep the Service shop/web by chart values (tenancy)"}},
		"the operator allows it": {func(o *Options, _ *Installer) {
			o.Values = map[string]any{"tenancy": allowed}
		}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := usesNetwork(t)
			in := b.installer(t, b.keys(t))
			in.Options.SkipTaint = true
			tt.change(&in.Options, in)
			require.NoError(t, in.Run(t.Context()), b.err.String())
			for _, says := range tt.says {
				require.Contains(t, b.err.String(), says)
			}
			if tt.says == nil {
				require.NotContains(t, b.err.String(), "shop/web")
			}
			require.Equal(t, !tt.kept, strings.Contains(strings.Join(in.FlagLine(), " "), "--strict-tenancy"))
			if !tt.kept {
				require.NotContains(t, b.helm.release.Values, "tenancy")
				return
			}
			require.Equal(t, allowed, b.helm.release.Values["tenancy"])
			require.Contains(t, b.helm.release.Manifest, `\"allow\":[\"shop\"]`)

			// The same again: nothing is refused, and no new revision is made.
			b.err.Reset()
			again := b.installer(t, Options{Yes: true, SkipTaint: true})
			require.NoError(t, again.Run(t.Context()), b.err.String())
			require.NotContains(t, b.err.String(), "shop/web")
			require.Equal(t, 1, b.helm.applied)
		})
	}
}

// What a tenant asks for while a policy is in force is not allowed by running csccm again.
func TestInstallKeepsNothingUnderAPolicy(t *testing.T) {
	t.Parallel()
	b := usesNetwork(t)
	require.NoError(t, b.installer(t, b.keys(t)).Run(t.Context()), b.err.String())
	s, err := b.kube.CoreV1().Services("shop").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	s.Namespace, s.UID = "guest", "another"
	_, err = b.kube.CoreV1().Services("guest").Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
	b.err.Reset()
	require.NoError(t, b.installer(t, Options{Yes: true}).Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), "Service guest/web is refused")
	require.Equal(t, 1, b.helm.applied)
	require.NotContains(t, b.helm.release.Manifest, `\"guest\"`)
}

// A dry run shows what would be kept, and the values.
func TestDryRunShowsThePolicy(t *testing.T) {
	t.Parallel()
	b := usesNetwork(t)
	o := b.keys(t)
	o.Yes, o.DryRun, o.Output = false, true, "json"
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	var p Plan
	require.NoError(t, json.Unmarshal(b.out.Bytes(), &p))
	require.NotNil(t, p.Tenants)
	require.Equal(t, []string{"shop/web"}, p.Tenants.Kept())
	require.Equal(t, p.Tenants.Values["tenancy"], p.Chart.Values["tenancy"])
	b.out.Reset()
	o.Output = "text"
	require.NoError(t, b.installer(t, o).Run(t.Context()), b.err.String())
	require.Contains(t, b.out.String(), "  Tenants     the policy (chart value tenancy)")
	require.Contains(t, b.out.String(), "! Service shop/web is kept by a chart value")
	require.Zero(t, b.helm.applied)
}
