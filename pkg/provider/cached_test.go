// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Cached objects lack what nobody reads, have the rest, and the objects that they are made of keep everything.
func TestCachedObjects(t *testing.T) {
	t.Parallel()
	meta := func(labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "n", Name: "x", UID: "u", ResourceVersion: "7", Labels: labels, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}
	}
	unmanaged := func(m metav1.ObjectMeta) metav1.ObjectMeta { m.ManagedFields = nil; return m }
	labels := map[string]string{discoveryv1.LabelServiceName: "web", "other": "label"}
	node := &corev1.Node{
		ObjectMeta: meta(labels), Spec: corev1.NodeSpec{ProviderID: "p", Taints: []corev1.Taint{{Key: "t"}}},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Address: "10.0.0.1"}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}},
			Images: []corev1.ContainerImage{{SizeBytes: 1}}, VolumesInUse: []corev1.UniqueVolumeName{"v"}, VolumesAttached: []corev1.AttachedVolume{{Name: "v"}},
		},
	}
	service := &corev1.Service{ObjectMeta: meta(labels), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta(labels), AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, NodeName: new("w1"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, TargetRef: &corev1.ObjectReference{Name: "p"}}},
	}
	for _, tc := range []struct {
		transform cache.TransformFunc
		in, want  any
	}{
		{cachedNode, node, &corev1.Node{
			ObjectMeta: unmanaged(node.ObjectMeta), Spec: node.Spec,
			Status: corev1.NodeStatus{Addresses: node.Status.Addresses, Conditions: node.Status.Conditions, VolumesAttached: node.Status.VolumesAttached},
		}},
		{newRecordsCache().strip, service, &corev1.Service{ObjectMeta: unmanaged(service.ObjectMeta), Spec: service.Spec}},
		{cachedSlice, slice, &discoveryv1.EndpointSlice{
			ObjectMeta:  unmanaged(meta(map[string]string{discoveryv1.LabelServiceName: "web"})),
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{NodeName: new("w1"), Conditions: slice.Endpoints[0].Conditions}},
		}},
	} {
		got, err := tc.transform(tc.in)
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
		tombstone := cache.DeletedFinalStateUnknown{Key: "n/x"}
		got, err = tc.transform(tombstone)
		require.NoError(t, err)
		require.Equal(t, tombstone, got)
	}
	require.NotEmpty(t, node.ManagedFields)
	require.NotEmpty(t, service.ManagedFields)
	require.NotEmpty(t, node.Status.Images)
}
