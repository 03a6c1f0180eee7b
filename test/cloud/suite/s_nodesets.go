// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// membersAre waits until the members of port 80 are just these nodes.
func (e *env) membersAre(ctx context.Context, ip string, names ...string) error {
	slices.Sort(names)
	_, err := e.ruleIs(ctx, ip, "80", fmt.Sprintf("members %v", names), func(r rule) bool { return slices.Equal(r.Members, names) })
	return err
}

// localPolicy moves the one ready endpoint from node to node.
func localPolicy(ctx context.Context, e *env) (string, error) {
	all := e.names()
	if err := e.endpoint(ctx, "web", all[0]); err != nil {
		return "", err
	}
	ip, err := e.served(ctx, "web", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	if err != nil {
		return "", err
	}
	if err := e.membersAre(ctx, ip, all[0]); err != nil {
		return "", err
	}
	if err := e.endpoint(ctx, "web", all[1]); err != nil {
		return "", err
	}
	if err := e.membersAre(ctx, ip, all[1]); err != nil {
		return "", err
	}
	err = e.edit(ctx, "web", func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		s.Spec.HealthCheckNodePort = 0
	})
	if err != nil {
		return "", err
	}
	return "members follow the endpoints; Cluster has all nodes again", e.membersAre(ctx, ip, all...)
}

// endpoint makes one ready endpoint of a Service on a node, and no other.
func (e *env) endpoint(ctx context.Context, service, node string) error {
	ready := true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.1"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	client := e.cluster.Client.DiscoveryV1().EndpointSlices(e.namespace)
	_, err := client.Update(ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, slice, metav1.CreateOptions{})
	}
	return err
}

// nodeSelector serves by labelled nodes, and follows a change of labels.
func nodeSelector(ctx context.Context, e *env) (string, error) {
	all := e.names()
	label := func(node, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"pool":%s}}}`, value)
		_, err := e.cluster.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if err := label(all[0], `"edge"`); err != nil {
		return "", err
	}
	defer func() {
		for _, node := range all {
			_ = label(node, "null")
		}
	}()
	ip, err := e.served(ctx, "web", set("node-selector", "pool=edge"))
	if err != nil {
		return "", err
	}
	if err := e.membersAre(ctx, ip, all[0]); err != nil {
		return "", err
	}
	if err := label(all[1], `"edge"`); err != nil {
		return "", err
	}
	if err := e.membersAre(ctx, ip, all[0], all[1]); err != nil {
		return "", fmt.Errorf("after a node got the label: %w", err)
	}
	if err := label(all[0], "null"); err != nil {
		return "", err
	}
	if err := e.membersAre(ctx, ip, all[1]); err != nil {
		return "", fmt.Errorf("after a node lost the label: %w", err)
	}
	return "members follow the labels of nodes", nil
}
