// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// namespaceAge is how long the labels of a namespace are trusted. They are read one by one: a watch would need the right
// to list all namespaces.
const namespaceAge = time.Minute

type namespace = tenancy.Namespace

// namespace returns a namespace with its labels if the policy selects by labels.
func (c *Controller) namespace(ctx context.Context, name string) (namespace, error) {
	if !c.deps.Tenancy.NeedsLabels() {
		return namespace{Name: name}, nil
	}
	if known, ok := c.namespaces.Get(name); ok {
		labels, _ := known.(map[string]string)
		return namespace{Name: name, Labels: labels}, nil
	}
	object, err := c.deps.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		object = &corev1.Namespace{} // it is gone, and its labels with it
	case err != nil:
		return namespace{}, fmt.Errorf("read the labels of namespace %s, by which the chart's value tenancy decides: %w", name, err)
	}
	c.namespaces.Set(name, object.Labels, namespaceAge)
	return namespace{Name: name, Labels: object.Labels}, nil
}

// grantsOf returns what the policy gives to a Service of the namespace beyond what the Service itself shows.
func grantsOf(p tenancy.Policy, ns namespace, address string) plan.Grants {
	if p.Trusts(ns) {
		return plan.AllGrants()
	}
	out := plan.Grants{
		SourceNAT:      p.Allows(tenancy.SourceNATAddress, ns, address) == nil,
		ForeignAddress: p.Allows(tenancy.ForeignAddress, ns, address) == nil,
		MaxAddresses:   -1, MaxKept: -1, MaxPorts: -1,
	}
	if limit := p.Limits.MaxAddressesPerNamespace; limit > 0 {
		out.MaxAddresses = limit
	}
	if limit := p.Limits.MaxPortsPerService; limit > 0 {
		out.MaxPorts = limit
	}
	if limit := p.Limits.KeepIP.MaxPerNamespace; limit != nil {
		out.MaxKept = *limit
	}
	return out
}
