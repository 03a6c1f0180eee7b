// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
)

// neighbours are the cluster's Services of type LoadBalancer that this controller works on.
func (lb *loadBalancer) neighbours(ctx context.Context) ([]observe.Neighbour, error) {
	services, err := lb.services(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]observe.Neighbour, 0, len(services))
	for _, svc := range services {
		if !Handles(svc) {
			continue
		}
		n := observe.Neighbour{UID: string(svc.UID), Namespace: svc.Namespace, Name: svc.Name, Addresses: loadbalancer.ServiceOf(svc).StatusIPs}
		// What does not parse shares with nobody; other mistakes in the Service do not matter here.
		if spec, _ := annotation.Parse(svc); len(spec.ShareWith) > 0 {
			n.ShareWith = spec.ShareWith
		}
		out = append(out, n)
	}
	return out, nil
}

func (lb *loadBalancer) services(ctx context.Context) ([]*corev1.Service, error) {
	if lb.deps.Services != nil {
		return lb.deps.Services(ctx)
	}
	return listServices(ctx, lb.deps.Kube)
}

func listServices(ctx context.Context, kube kubernetes.Interface) ([]*corev1.Service, error) {
	// What the API server has in memory will do: who shares an address was there before.
	list, err := kube.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	out := make([]*corev1.Service, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// servicesOf are the cluster's Services from the framework's cache once it is filled, before that from the API server.
func (p *Provider) servicesOf(kube kubernetes.Interface) func(context.Context) ([]*corev1.Service, error) {
	return func(ctx context.Context) ([]*corev1.Service, error) {
		c := p.serviceCache.Load()
		if c == nil || !c.synced() {
			return listServices(ctx, kube)
		}
		list, err := c.lister.List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("list Services: %w", err)
		}
		return list, nil
	}
}
