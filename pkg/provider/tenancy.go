// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// namespaceAge is how long the labels of a namespace are trusted. They are read one by one: a watch would need the right
// to list all namespaces.
const namespaceAge = time.Minute

// parseTenancy reads the flag --tenancy; an empty one is the default policy.
func parseTenancy(text string) (tenancy.Policy, error) {
	if text == "" {
		return tenancy.Default(), nil
	}
	return tenancy.Parse([]byte(text))
}

// allowed returns a refusal if the policy does not allow what the Service itself shows.
func (lb *loadBalancer) allowed(ns tenancy.Namespace, svc *corev1.Service) error {
	if denial := lb.deps.Tenancy.Check(ns, svc); denial != nil {
		return &plan.RefusalError{Reason: plan.ReasonNotAllowed, Message: denial.Message, Remedy: denial.Remedy}
	}
	return nil
}

// namespace returns a namespace with its labels if the policy selects by labels.
func (lb *loadBalancer) namespace(ctx context.Context, name string) (tenancy.Namespace, error) {
	if !lb.deps.Tenancy.NeedsLabels() {
		return tenancy.Namespace{Name: name}, nil
	}
	if known, ok := lb.namespaces.Get(name); ok {
		labels, _ := known.(map[string]string)
		return tenancy.Namespace{Name: name, Labels: labels}, nil
	}
	object, err := lb.deps.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		object = &corev1.Namespace{} // it is gone, and its labels with it
	case err != nil:
		return tenancy.Namespace{}, fmt.Errorf("read the labels of namespace %s, by which the chart's value tenancy decides: %w", name, err)
	}
	lb.namespaces.Set(name, object.Labels, namespaceAge)
	return tenancy.Namespace{Name: name, Labels: object.Labels}, nil
}

// grantsOf returns what the policy gives to a Service of the namespace beyond what the Service itself shows.
func grantsOf(p tenancy.Policy, ns tenancy.Namespace, address string) plan.Grants {
	if p.Trusts(ns) {
		return plan.AllGrants()
	}
	out := plan.Grants{
		SourceNAT:      p.Allows(tenancy.SourceNATAddress, ns, address) == nil,
		ForeignAddress: p.Allows(tenancy.ForeignAddress, ns, address) == nil,
		MaxAddresses:   -1, MaxKept: -1,
	}
	if limit := p.Limits.MaxAddressesPerNamespace; limit > 0 {
		out.MaxAddresses = limit
	}
	if limit := p.Limits.KeepIP.MaxPerNamespace; limit != nil {
		out.MaxKept = *limit
	}
	return out
}

// neighbours are the cluster's Services of type LoadBalancer that this controller works on.
func (lb *loadBalancer) neighbours(ctx context.Context) ([]observe.Neighbour, error) {
	services, err := lb.deps.Services(ctx)
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
		if c == nil || !(*c).Informer().HasSynced() {
			return listServices(ctx, kube)
		}
		return (*c).Lister().List(labels.Everything())
	}
}
