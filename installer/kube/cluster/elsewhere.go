// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReleaseElsewhere returns the namespace of a release that is not in c.Namespace but in another; "" if it is here, or
// nowhere, or that cannot be read.
func (c *Cluster) ReleaseElsewhere(ctx context.Context, release string) string {
	selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + release}
	var namespaces []string
	deployments, err := c.Kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, selector)
	if err != nil {
		return ""
	}
	for i := range deployments.Items {
		namespaces = append(namespaces, deployments.Items[i].Namespace)
	}
	if len(namespaces) == 0 {
		sets, err := c.Kube.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, selector)
		if err != nil {
			return ""
		}
		for i := range sets.Items {
			namespaces = append(namespaces, sets.Items[i].Namespace)
		}
	}
	if len(namespaces) == 0 || slices.Contains(namespaces, c.Namespace) {
		return ""
	}
	// A release of the same name whose Deployment somebody deleted is here too.
	records, err := c.Kube.CoreV1().Secrets(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + release, Limit: 1})
	if err == nil && len(records.Items) > 0 {
		return ""
	}
	return slices.Min(namespaces)
}
