// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// namespaceAge is how long the labels of a namespace are trusted. Each namespace is read separately, because a watch
// would need permission to list all namespaces.
const namespaceAge = time.Minute

// namespace returns a namespace, with its labels if the policy selects by labels.
func (c *Controller) namespace(ctx context.Context, name string) (tenancy.Namespace, error) {
	ns := tenancy.Namespace{Name: name}
	if !c.Tenancy.NeedsLabels() {
		return ns, nil
	}

	if known, ok := c.namespaces.Get(name); ok {
		ns.Labels, _ = known.(map[string]string)
		return ns, nil
	}

	object, err := c.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		object = &corev1.Namespace{} // the namespace no longer exists, and has no labels
	case err != nil:
		return ns, fmt.Errorf("read the labels of namespace %s, which the chart's value tenancy selects by: %w", name,
			err)
	}

	ns.Labels = object.Labels
	c.namespaces.Set(name, ns.Labels, namespaceAge)
	return ns, nil
}

// grantsOf returns what the policy allows a Service of the namespace beyond what the Service itself shows.
func grantsOf(p tenancy.Policy, ns tenancy.Namespace, address string) plan.Grants {
	if p.Trusts(ns) {
		return plan.AllGrants()
	}
	return plan.Grants{
		SourceNAT:      p.Allows(tenancy.SourceNATAddress, ns, address) == nil,
		ForeignAddress: p.Allows(tenancy.ForeignAddress, ns, address) == nil,
		MaxAddresses:   cmp.Or(p.Limits.MaxAddressesPerNamespace, -1),
		MaxPorts:       cmp.Or(p.Limits.MaxPortsPerService, -1),
		MaxAllPorts:    cmp.Or(p.Limits.MaxPortsPerNamespace, -1),
		MaxKeepIP:      ptr.Deref(p.Limits.KeepIP.MaxPerNamespace, -1),
	}
}
