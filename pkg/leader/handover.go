// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// HandOver ends this process's leadership so that another replica need not wait for the lease to run out: it
// closes the fence, waits until nothing is written any more, and then frees the lease. released is false
// when the process did not lead. When writes do not end before the context does, the lease stays as it is and
// runs out: a new leader must not begin while the old one may still write.
//
// leases must not go through the fence. holder is how this process's identity begins, its host name.
func (f *Fence) HandOver(ctx context.Context, leases coordinationv1client.LeasesGetter, holder string) (released bool, err error) {
	led := f.Leads()
	if err := f.Close(ctx); err != nil {
		return false, err
	}
	if !led {
		return false, nil
	}
	f.mu.Lock()
	where := *f.lease
	f.mu.Unlock()
	client := leases.Leases(where.Namespace)
	lease, err := client.Get(ctx, where.Name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read lease %s/%s: %w", where.Namespace, where.Name, err)
	}
	if id := ptr.Deref(lease.Spec.HolderIdentity, ""); !strings.HasPrefix(id, holder+"_") {
		return false, nil // somebody else's by now
	}
	// What client-go's own ReleaseOnCancel writes. The resource version makes it fail if anybody came first.
	now := metav1.NewMicroTime(f.clock.Now())
	lease.Spec.HolderIdentity = ptr.To("")
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(1))
	lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
	if _, err := client.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("release lease %s/%s: %w", where.Namespace, where.Name, err)
	}
	return true, nil
}
