// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/test/cloud/must"
)

// membersAre waits until the members of port 80 are just these nodes.
func (e *env) membersAre(ip string, names ...string) {
	slices.Sort(names)
	e.ruleIs(ip, "80", fmt.Sprintf("members %v", names), func(r rule) bool { return slices.Equal(r.Members, names) })
}

// localPolicy moves the one ready endpoint from node to node.
func localPolicy(e *env) string {
	all := e.names()
	e.endpoint("web", all[0])
	ip := e.served("web", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	e.membersAre(ip, all[0])
	e.endpoint("web", all[1])
	e.membersAre(ip, all[1])
	e.edit("web", func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		s.Spec.HealthCheckNodePort = 0
	})
	e.membersAre(ip, all...)
	return "members follow the endpoints; Cluster has all nodes again"
}

// endpoint makes one ready endpoint of a Service on a node, and no other.
func (e *env) endpoint(service, node string) {
	ready := true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.1"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	client := e.cluster.Client.DiscoveryV1().EndpointSlices(e.namespace)
	_, err := client.Update(e.ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(e.ctx, slice, metav1.CreateOptions{})
	}
	must.OK(err)
}

// nodeSelector serves by labelled nodes, and follows a change of labels.
func nodeSelector(e *env) string {
	all := e.names()
	e.cleanup(func() {
		for _, node := range all {
			e.label(node, "pool", "null")
		}
	})
	e.label(all[0], "pool", `"edge"`)
	ip := e.served("web", set("node-selector", "pool=edge"))
	e.membersAre(ip, all[0])
	e.label(all[1], "pool", `"edge"`)
	e.membersAre(ip, all[0], all[1])
	e.label(all[0], "pool", "null")
	e.membersAre(ip, all[1])
	return "members follow the labels of nodes"
}
