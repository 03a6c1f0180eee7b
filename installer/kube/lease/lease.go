// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease holds and frees the lease by which cloud controller managers elect their leader.
package lease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// Name is the name of a lease.
type Name struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Default is the lease of cloud controller managers that are told no other.
var Default = Name{"kube-system", "cloud-controller-manager"}

// Get reads a lease; nil where there is none.
func Get(ctx context.Context, kube kubernetes.Interface, name Name) (*coordinationv1.Lease, error) {
	l, err := kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading lease %s: %w", name, err)
	}
	return l, nil
}

// Holder returns who holds a lease; "" for nobody.
func Holder(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// Age returns how long ago the holder of a lease has renewed it, and for how long a renewal lasts; false where nobody holds it.
func Age(l *coordinationv1.Lease, c clock.PassiveClock) (age, lasts time.Duration, held bool) {
	if Holder(l) == "" || l.Spec.RenewTime == nil {
		return 0, 0, false
	}
	return c.Since(l.Spec.RenewTime.Time), time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second, true
}
