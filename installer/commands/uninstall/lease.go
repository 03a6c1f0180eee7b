// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/engine"
)

// A holder that is alive renews its lease every two seconds by default.
const (
	leasePoll  = time.Second
	leaseAlive = 5 * time.Second
)

// lease plans to free the lease. The controller cannot do so by itself: Helm deletes its roles together with its Deployment.
// Without a release it is the lease that an earlier run, which was stopped, has left: nobody renews it, and it has not expired.
func (p *Plan) lease(ctx context.Context, u *run) {
	name := takeover.LeaseOf(p.manifest)
	l, err := u.Cluster.Kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil || ptr.Deref(l.Spec.HolderIdentity, "") == "" || l.Spec.RenewTime == nil {
		return
	}
	age, lasts := u.Clock.Since(l.Spec.RenewTime.Time), time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second
	if age > lasts || p.Revision == 0 && age < leaseAlive {
		return
	}
	p.leased = true
	p.Deletes = append(p.Deletes, fmt.Sprintf("holder of Lease %s, unless another controller renews it: the next controller can lead at once", name))
}

// releaseLease frees the lease that a Pod of the release held. Its Pods have ended. A failure is a warning: a
// new controller then waits until the lease has expired.
func (u *run) releaseLease(ctx context.Context, note engine.Note) error {
	if !u.plan.leased {
		return nil
	}
	name := takeover.LeaseOf(u.plan.manifest)
	u.Progress.Step("Lease %s", name)
	released, err := u.freeLease(ctx, name)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		u.Progress.Warn("lease %s could not be released: %v; a new controller leads when it has expired", name, err)
		u.Progress.Done("not released")
	case released:
		note("released lease %s", name)
		u.Progress.Done("released")
	default:
		u.Progress.Done("not held by this release")
	}
	return nil
}

// freeLease frees a lease that nobody renews. A holder is not known by its name: with hostNetwork a controller of somebody else on
// the same node has the same one.
func (u *run) freeLease(ctx context.Context, name takeover.LeaseName) (released bool, err error) {
	leases := u.Cluster.Kube.CoordinationV1().Leases(name.Namespace)
	var first *coordinationv1.Lease
	alive, err := engine.Poll(ctx, u.Clock, leasePoll, leaseAlive, func() (bool, error) {
		l, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
		if err == nil && first == nil {
			first = l
		}
		return err == nil && (ptr.Deref(l.Spec.HolderIdentity, "") == "" || !sameHold(l, first)), err
	})
	if err == nil && !alive {
		l := first.DeepCopy()
		// As client-go's election releases a lease.
		now := metav1.NewMicroTime(u.Clock.Now())
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime, l.Spec.AcquireTime = ptr.To(""), ptr.To[int32](1), &now, &now
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		released = err == nil
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	return released, u.Cluster.Explain(err)
}

// sameHold reports whether nobody renewed or took the lease in between.
func sameHold(a, b *coordinationv1.Lease) bool {
	return ptr.Deref(a.Spec.HolderIdentity, "") == ptr.Deref(b.Spec.HolderIdentity, "") && a.Spec.RenewTime.Equal(b.Spec.RenewTime)
}
