// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Cached is the transform function of informers: it removes from cached objects the fields that this process never
// reads. It returns a copy, because a fake API server returns the objects that it stores. It is idempotent, because
// client-go may call it more than once for an object. Patches are not affected, because they are differences of two
// copies that both lack these fields.
func Cached(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Service:
		c := *o
		c.ManagedFields = nil
		return &c, nil
	case *corev1.Node:
		c := *o
		c.ManagedFields = nil
		// Keep VolumesAttached: the deletion of the Node waits for these volumes.
		c.Status.Images, c.Status.VolumesInUse = nil, nil
		return &c, nil
	case *discoveryv1.EndpointSlice: // only the Service, and the nodes of the endpoints
		c := *o
		c.Annotations, c.OwnerReferences, c.ManagedFields, c.Ports, c.Endpoints = nil, nil, nil, nil, nil
		c.Labels = map[string]string{discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName]}
		for _, e := range o.Endpoints {
			c.Endpoints = append(c.Endpoints, discoveryv1.Endpoint{NodeName: e.NodeName, Conditions: e.Conditions})
		}
		return &c, nil
	}

	return obj, nil
}
