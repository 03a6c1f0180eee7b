// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/commands/takeover/leftby"
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

// A csccm that was killed leaves the lease held: the next one waits until it is sure of that, and takes it.
// One that is at work keeps it, whatever its clock says.
func TestLeaseOfAnotherCSCCM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alive bool
		skew  time.Duration // of the other's clock
	}{
		"killed":                           {},
		"killed, its clock was ahead":      {skew: time.Hour},
		"killed, its clock was behind":     {skew: -time.Hour},
		"at work":                          {alive: true},
		"at work, and its clock is ahead":  {alive: true, skew: time.Hour},
		"at work, and its clock is behind": {alive: true, skew: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				kube, own := fake.NewClientset(), clock.RealClock{}
				first, err := seize(t.Context(), kube, skewed{own, c.skew}, DefaultLease, identityPrefix+"1")
				require.NoError(t, err)
				defer first.stop()
				if !c.alive {
					first.stop()
					<-first.done
				}
				begun := own.Now()
				second, err := seize(t.Context(), kube, own, DefaultLease, identityPrefix+"2")
				if c.alive {
					require.ErrorContains(t, err, "another csccm is at work: csccm-takeover_1")
					require.NoError(t, first.check(t.Context()))
					return
				}
				require.NoError(t, err)
				require.NoError(t, second.check(t.Context()))
				require.NoError(t, second.release(t.Context()))
				require.InDelta(t, leaseMissed, own.Since(begun), float64(leaderPoll))
			})
		})
	}
}

// skewed is the clock of a machine whose clock is wrong.
type skewed struct {
	clock.RealClock
	by time.Duration
}

func (s skewed) Now() time.Time                     { return s.RealClock.Now().Add(s.by) }
func (s skewed) Since(from time.Time) time.Duration { return s.Now().Sub(from) }
