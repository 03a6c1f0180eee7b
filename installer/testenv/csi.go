// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/storage"
)

// csiChartDir is the folder of a chart that stands for the CSI driver's, seen from a package of installer/commands.
const csiChartDir = "../../testenv/testdata/csi-chart"

// CSIChart returns that chart and the digest of its content.
func CSIChart(t *testing.T) (*helm.Chart, string) {
	t.Helper()
	chart, err := helm.Load(csiChartDir, "")
	require.NoError(t, err)
	digest, err := chart.Digest()
	require.NoError(t, err)
	return chart, digest
}

// KeepCSI has the cluster do what it does with the objects of the CSI driver's release: their Pods are ready, except for
// so many of the DaemonSet.
func (e *Env) KeepCSI(unready int32) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: Namespace, Name: name, Generation: 1}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "csi"}}
	e.Releases.CSI = &Helm{Render: true, Changed: func(ctx context.Context, r *helm.Release) error {
		drivers, apps := e.Kube.StorageV1().CSIDrivers(), e.Kube.AppsV1()
		_ = drivers.Delete(ctx, storage.DriverName, metav1.DeleteOptions{})
		_ = apps.Deployments(Namespace).Delete(ctx, "cloudstack-csi-controller", metav1.DeleteOptions{})
		_ = apps.DaemonSets(Namespace).Delete(ctx, "cloudstack-csi-node", metav1.DeleteOptions{})
		if r == nil {
			return nil
		}
		driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: storage.DriverName, Annotations: map[string]string{
			"meta.helm.sh/release-name": r.Name, "meta.helm.sh/release-namespace": r.Namespace,
		}}}
		deployment := &appsv1.Deployment{
			ObjectMeta: meta("cloudstack-csi-controller"), Spec: appsv1.DeploymentSpec{Selector: selector},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
		}
		daemonSet := &appsv1.DaemonSet{
			ObjectMeta: meta("cloudstack-csi-node"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: corev1.PodTemplateSpec{}},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3 - unready},
		}
		_, err := drivers.Create(ctx, driver, metav1.CreateOptions{})
		if err == nil {
			_, err = apps.Deployments(Namespace).Create(ctx, deployment, metav1.CreateOptions{})
		}
		if err == nil {
			_, err = apps.DaemonSets(Namespace).Create(ctx, daemonSet, metav1.CreateOptions{})
		}
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}}
}
