// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Cached is the transform of informers: it takes out of cached objects what nobody here reads. It returns a copy, as a
// fake API server hands out the objects that it keeps, and has no other effect: client-go may call it more than once
// for an object. What is written is a difference of two copies that both lack the same.
func Cached(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Service:
		c := *o
		c.ManagedFields = nil
		return &c, nil
	case *corev1.Node:
		c := *o
		c.ManagedFields = nil
		c.Status.Images, c.Status.VolumesInUse = nil, nil // not the attached ones, which the Node's deletion waits for
		return &c, nil
	case *discoveryv1.EndpointSlice: // its Service, and on which nodes the endpoints are
		c := *o
		c.Annotations, c.OwnerReferences, c.ManagedFields, c.Ports, c.Endpoints = nil, nil, nil, nil, nil
		c.Labels = map[string]string{discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName]}
		for i := range o.Endpoints {
			c.Endpoints = append(c.Endpoints,
				discoveryv1.Endpoint{NodeName: o.Endpoints[i].NodeName, Conditions: o.Endpoints[i].Conditions})
		}
		return &c, nil
	}

	return obj, nil
}
