// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// A controller that is missing is found also where no record of Helm says that it should be there.
func TestPhaseOf(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloudstack-secret"}}
	workload := func(name string, replicas int32, labels map[string]string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: labels}}
		d.Spec.Replicas = &replicas
		return d
	}
	ours := workload("cloudstack-cloud-controller-manager", 0, map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": release})
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    check.Phase
	}{
		"a new cluster":                         {nil, check.PhasePreflight},
		"a release of Helm":                     {[]runtime.Object{revision(t, 1, "deployed", chartObjects, nil)}, check.PhaseInstalled},
		"a manifest with no replicas":           {[]runtime.Object{ours}, check.PhaseInstalled},
		"a Secret without a controller":         {[]runtime.Object{secret}, check.PhaseInstalled},
		"a Secret of another provider":          {[]runtime.Object{secret, workload("cloud-controller-manager", 1, nil)}, check.PhasePreflight},
		"a Secret, another provider is stopped": {[]runtime.Object{secret, workload("cloud-controller-manager", 0, nil)}, check.PhaseInstalled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, inspect.PhaseOf(t.Context(), cluster.NewForTest(fakekube.New(tc.objects...)), release))
		})
	}
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
			refused, err := inspect.Refused(t.Context(), e, tt.manifest)
			require.NoError(t, err)
			require.Len(t, refused, len(tt.lines))
			for _, line := range tt.lines {
				require.Contains(t, said.String(), line)
			}
		})
	}
	_, err := inspect.Refused(t.Context(), nil, manifest(`, '--tenancy={'`))
	require.ErrorContains(t, err, "tenancy")
}
