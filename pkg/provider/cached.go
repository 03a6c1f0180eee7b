// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// The functions of this file are transforms of informers: they take out of cached objects what nobody here reads. Each
// returns a copy, as a fake API server hands out the objects that it keeps. What the framework writes is a difference of
// two copies that both lack the same, or was read from the API server just before.

// cachedNode is a Node without the parts that are long: who has written which field, the images on the node, and the volumes
// that its Pods use (not those that are attached, which its deletion waits for).
func cachedNode(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	c := *n
	c.ManagedFields = nil
	c.Status.Images, c.Status.VolumesInUse = nil, nil
	return &c, nil
}

// cachedSlice has of an EndpointSlice its Service, and on which nodes the endpoints are.
func cachedSlice(obj any) (any, error) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	c := &discoveryv1.EndpointSlice{TypeMeta: s.TypeMeta, AddressType: s.AddressType}
	c.Name, c.Namespace, c.UID, c.ResourceVersion, c.DeletionTimestamp = s.Name, s.Namespace, s.UID, s.ResourceVersion, s.DeletionTimestamp
	if service, ok := s.Labels[discoveryv1.LabelServiceName]; ok {
		c.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	for i := range s.Endpoints {
		c.Endpoints = append(c.Endpoints, discoveryv1.Endpoint{NodeName: s.Endpoints[i].NodeName, Conditions: s.Endpoints[i].Conditions})
	}
	return c, nil
}
