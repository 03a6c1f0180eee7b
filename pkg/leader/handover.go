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

// HandOver ends this process's leadership so that another replica need not wait for the lease to expire: it
// closes the fence, waits for the writes in progress, and then releases the lease. released is false
// if the process was not the leader. If the writes do not end before the context does, the lease is left to
// expire: a new leader must not start while the old one may still write.
//
// The client leases must not use the fence's transport. holder is the prefix of this process's identity: its host name.
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
		return false, nil // another replica holds the lease
	}
	// These are the fields that client-go's ReleaseOnCancel writes. The update fails with a conflict if the lease
	// was changed in between, because it includes the resource version.
	now := metav1.NewMicroTime(f.clock.Now())
	lease.Spec.HolderIdentity = ptr.To("")
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(1))
	lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
	if _, err := client.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("release lease %s/%s: %w", where.Namespace, where.Name, err)
	}
	return true, nil
}
