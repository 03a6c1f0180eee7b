// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// namespaceAge is how long the labels of a namespace are trusted. They are read one by one: a watch would need the right
// to list all namespaces.
const namespaceAge = time.Minute

// namespaces holds the labels of namespaces for a policy that selects by them.
type namespaces struct {
	mu     sync.Mutex
	labels map[string]namespaceLabels
}

type namespaceLabels struct {
	labels map[string]string
	read   time.Time
}

// parseTenancy reads the flag --tenancy; an empty one is the default policy.
func parseTenancy(text string) (tenancy.Policy, error) {
	if text == "" {
		return tenancy.Default(), nil
	}
	return tenancy.Parse([]byte(text))
}

// tenancy returns the policy of options that are valid.
func (o *Options) tenancy() *tenancy.Policy {
	p, err := parseTenancy(o.Tenancy)
	if err != nil {
		p = tenancy.Default()
	}
	return &p
}

// tenancy returns the operator's policy.
func (lb *loadBalancer) tenancy() tenancy.Policy {
	if lb.deps.Tenancy == nil {
		return tenancy.Default()
	}
	return *lb.deps.Tenancy
}

// allowed returns a refusal if the policy does not allow what the Service itself shows. It reads nothing from CloudStack.
func (lb *loadBalancer) allowed(ctx context.Context, svc *corev1.Service) error {
	ns, err := lb.namespace(ctx, svc.Namespace)
	if err != nil {
		return err
	}
	if denial := lb.tenancy().Check(ns, svc); denial != nil {
		return &plan.RefusalError{Reason: plan.ReasonNotAllowed, Message: denial.Message, Remedy: denial.Remedy}
	}
	return nil
}

// namespace returns a namespace with its labels if the policy selects by labels.
func (lb *loadBalancer) namespace(ctx context.Context, name string) (tenancy.Namespace, error) {
	if !lb.tenancy().NeedsLabels() {
		return tenancy.Namespace{Name: name}, nil
	}
	now := lb.deps.Clock.Now()
	n := &lb.namespaces
	n.mu.Lock()
	known, ok := n.labels[name]
	n.mu.Unlock()
	if ok && now.Sub(known.read) < namespaceAge {
		return tenancy.Namespace{Name: name, Labels: known.labels}, nil
	}
	object, err := lb.deps.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		object = &corev1.Namespace{} // it is gone, and its labels with it
	case err != nil:
		return tenancy.Namespace{}, fmt.Errorf("read the labels of namespace %s, by which the chart's value tenancy decides: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.labels == nil {
		n.labels = map[string]namespaceLabels{}
	}
	for other, l := range n.labels {
		if now.Sub(l.read) >= namespaceAge {
			delete(n.labels, other)
		}
	}
	n.labels[name] = namespaceLabels{labels: object.Labels, read: now}
	return tenancy.Namespace{Name: name, Labels: object.Labels}, nil
}

// grants returns what the policy gives to the Service beyond what the Service itself shows.
func (lb *loadBalancer) grants(ctx context.Context, svc *corev1.Service, spec annotation.Spec) (plan.Grants, error) {
	ns, err := lb.namespace(ctx, svc.Namespace)
	if err != nil {
		return plan.Grants{}, err
	}
	return grantsOf(lb.tenancy(), ns, spec.Address), nil
}

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
