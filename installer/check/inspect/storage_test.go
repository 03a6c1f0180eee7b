// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// storage adds the CSI driver as its chart installs it, registered on every node, with a Secret of its own.
func (w *world) storage(t *testing.T) {
	t.Helper()
	client, err := cloudstack.NewClient(w.env.CloudConfig)
	require.NoError(t, err)
	vms, err := client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	w.add(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: check.DriverName}})
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "driver", Image: "mirror.example.org/csi/cloudstack-csi-driver:3.0.0@sha256:0",
			Args: []string{"--cloudstack-config=$(CLOUD_CONFIG)", "--cloudstack-config=/etc/config/driver"},
		}},
		Volumes: []corev1.Volume{{Name: "cloud-config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cloudstack-secret"}}}},
	}}
	two := int32(2)
	w.add(t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "csi-controller"},
		Spec:       appsv1.DeploymentSpec{Replicas: &two, Template: template}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
	})
	w.add(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "cloudstack-secret"}, Data: map[string][]byte{
		"cloud-config": w.env.CloudConfig.Render(), "driver": driverConfig(w.env.CloudConfig),
	}})
	for _, vm := range vms {
		w.changeNode(t, vm.Name, func(n *corev1.Node) { n.Labels[check.ZoneKey] = vm.ZoneID })
		w.add(t, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: vm.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "other.example.org", NodeID: vm.Name}, {Name: check.DriverName, NodeID: vm.ID, TopologyKeys: []string{check.ZoneKey}},
		}}})
	}
}

// driverConfig is a cloud-config that the driver can read.
func driverConfig(c *cloudstack.Config) []byte {
	return fmt.Appendf(nil, "[Global]\napi-url = %s\napi-key = %s\nsecret-key = %s\n", c.APIURL, c.APIKey, c.SecretKey)
}

// volume adds a PersistentVolume of the driver.
func (w *world) volume(t *testing.T, name, id string, zones ...string) {
	t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: check.DriverName, VolumeHandle: id}
	if len(zones) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: check.ZoneKey, Operator: corev1.NodeSelectorOpIn, Values: zones}},
		}}}}
	}
	w.add(t, v)
}

// storageFaults are those of volumes.
func storageFaults() []fault {
	return []fault{
		{code: "STOR-001", outcome: check.Failed, says: "Secret kube-system/cloudstack-secret, which the CSI driver needs, does not exist", inject: func(t *testing.T, w *world) {
			w.storage(t)
			require.NoError(t, w.kube.CoreV1().Secrets(system).Delete(t.Context(), "cloudstack-secret", metav1.DeleteOptions{}))
		}},
		{code: "STOR-001", outcome: check.Failed, says: "its cloud-config has keys that it does not know: region, rate-limit", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.driverFile(t, append(driverConfig(w.env.CloudConfig), "region = r\nrate-limit = 3\n"...))
		}},
		{code: "STOR-002", outcome: check.Failed, says: `Node demo-worker-1: its label topology.csi.cloudstack.apache.org/zone is "old"`, inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.changeNode(t, "demo-worker-1", func(n *corev1.Node) { n.Labels[check.ZoneKey] = "old" })
		}},
		{code: "STOR-002", outcome: check.Failed, says: "Node demo-worker-2: its CSINode says VM another", inject: func(t *testing.T, w *world) {
			w.storage(t)
			n, err := w.kube.StorageV1().CSINodes().Get(t.Context(), "demo-worker-2", metav1.GetOptions{})
			require.NoError(t, err)
			n.Spec.Drivers[1].NodeID = "another"
			_, err = w.kube.StorageV1().CSINodes().Update(t.Context(), n, metav1.UpdateOptions{})
			require.NoError(t, err)
		}},
		{code: "NODE-007", outcome: check.Warning, says: "PersistentVolume data: wants topology.csi.cloudstack.apache.org/zone gone; by CloudStack's data no node has it", inject: func(t *testing.T, w *world) {
			w.storage(t)
			w.volume(t, "data", "v", "gone")
		}},
	}
}

// driverFile gives the driver another cloud-config.
func (w *world) driverFile(t *testing.T, file []byte) {
	t.Helper()
	s, err := w.kube.CoreV1().Secrets(system).Get(t.Context(), "cloudstack-secret", metav1.GetOptions{})
	require.NoError(t, err)
	s.Data["driver"] = file
	_, err = w.kube.CoreV1().Secrets(system).Update(t.Context(), s, metav1.UpdateOptions{})
	require.NoError(t, err)
}
