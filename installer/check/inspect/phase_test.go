// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/kube/cluster"
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
