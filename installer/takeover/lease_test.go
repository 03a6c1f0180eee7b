// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/takeover/leftby"
)

// Somebody who takes the lease while csccm holds it may have acted meanwhile: that is said, not passed over.
func TestHoldThatIsLostIsSaid(t *testing.T) {
	t.Parallel()
	b := newBed(t, leftby.Apache, append(leftby.ApacheObjects(), ours())...)
	p := NewPlan(b.facts(t))
	taker := b.taker(t, p)
	taker.Accept = []string{All}
	require.NoError(t, run(t.Context(), taker.Before()))
	leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
	b.kube.PrependReactor("patch", "deployments", func(ktesting.Action) (bool, runtime.Object, error) {
		object, err := b.kube.Tracker().Get(leases, p.Own.Lease.Namespace, p.Own.Lease.Name)
		if err != nil {
			return true, nil, err
		}
		l, other := object.(*coordinationv1.Lease).DeepCopy(), "node-1_other"
		l.Spec.HolderIdentity = &other
		return false, nil, b.kube.Tracker().Update(leases, l, p.Own.Lease.Namespace)
	})
	err := run(t.Context(), taker.After())
	require.ErrorContains(t, err, `is held by "node-1_other": another csccm, or a controller that took it`)
}
