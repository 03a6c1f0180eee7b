// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/installer/kube/lease"
)

// lease plans to free the lease. The controller cannot do so by itself: Helm deletes its roles together with its Deployment.
// Without a release it is the lease that an earlier run, which was stopped, has left: nobody renews it, and it has not expired.
func (p *Plan) lease(ctx context.Context, u *run) {
	name := family.LeaseOfChart(p.manifest)
	l, err := lease.Get(ctx, u.Cluster.Kube, name)
	age, lasts, held := lease.Age(l, u.Clock)
	if err != nil || !held || age > lasts || p.Revision == 0 && age < lease.Alive {
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
	name := family.LeaseOfChart(u.plan.manifest)
	u.Progress.Step("Lease %s", name)
	released, err := lease.Free(ctx, u.Cluster.Kube, u.Clock, name)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		u.Progress.Warn("lease %s could not be released: %v; a new controller leads when it has expired", name, u.Cluster.Explain(err))
		u.Progress.Done("not released")
	case released:
		note("released lease %s", name)
		u.Progress.Done("released")
	default:
		u.Progress.Done("not held by this release")
	}
	return nil
}
