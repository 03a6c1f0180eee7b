// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// A csccm that was killed still holds the lease: the next csccm waits until the lease is no longer renewed, and takes
// it. A csccm that still runs keeps the lease, even if its clock is wrong.
func TestLeaseOfAnotherCSCCM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alive bool
		skew  time.Duration // skew of the other csccm's clock
	}{
		"killed":                           {},
		"killed, its clock was ahead":      {skew: time.Hour},
		"killed, its clock was behind":     {skew: -time.Hour},
		"at work":                          {alive: true},
		"at work, and its clock is ahead":  {alive: true, skew: time.Hour},
		"at work, and its clock is behind": {alive: true, skew: -time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(name)
			kube, own := fake.NewClientset(), clock.RealClock{}
			first, err := seize(t.Context(), kube, skewed{own, c.skew}, Default, identityPrefix+"1")
			require.NoError(t, err)
			defer first.stop()
			if !c.alive {
				first.stop()
				<-first.done
			}

			begun := own.Now()
			second, err := seize(t.Context(), kube, own, Default, identityPrefix+"2")
			if c.alive {
				require.ErrorContains(t, err, "another csccm is running: csccm-takeover_1")
				require.NoError(t, first.check(t.Context()))
				return
			}

			require.NoError(t, err)
			require.NoError(t, second.check(t.Context()))
			require.NoError(t, second.release(t.Context()))
			require.InDelta(t, missed, own.Since(begun), float64(pollInterval))
		})
	}
}

// If the old controller did not lead, a Pod of csccm's chart may. That Pod must have stopped writing before the hold
// ends.
func TestHoldOutlastsTheLeader(t *testing.T) {
	t.Parallel()
	const period = 15 * time.Second
	for name, c := range map[string]struct {
		holder string
		want   time.Duration
	}{
		"nobody":                    {"", 0},
		"another csccm":             {identityPrefix + "1", 0},
		"the old controller's Pod":  {"cloud-controller-manager-1a2b-xyz_1", 0},
		"a Pod of ours":             {"cloudstack-cloud-controller-manager-1a2b-xyz_1", period},
		"a Pod on a node's network": {"node-1_1", period},
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(name)
			kube, own := fake.NewClientset(), clock.RealClock{}
			now := metav1.NewMicroTime(own.Now())
			_, err := kube.CoordinationV1().Leases(Default.Namespace).Create(t.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: Default.Namespace, Name: Default.Name},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity:       &c.holder,
					RenewTime:            &now,
					LeaseDurationSeconds: ptr.To(int32(period / time.Second)),
				},
			}, metav1.CreateOptions{})
			require.NoError(t, err)

			h, err := seize(t.Context(), kube, own, Default, identityPrefix+"2")
			require.NoError(t, err)
			defer h.stop()

			begun := own.Now()
			require.NoError(t, h.outlast(t.Context(), []string{"cloud-controller-manager"}))
			require.Equal(t, c.want, own.Since(begun))
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
