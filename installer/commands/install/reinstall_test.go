// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/uninstall"
	"github.com/csccm/csccm/installer/engine"
)

const leaseName = "cloud-controller-manager"

// election is a controller's leader election as client-go has it: a lease that somebody holds is taken only after
// it has not been renewed for its duration, as seen from here.
type election struct {
	env      *env
	identity string // of the Pod that runs; "" = none
	seen     metav1.MicroTime
	since    time.Time
}

// turn is one attempt to get or renew the lease.
func (e *election) turn(ctx context.Context) error {
	e.env.mu.Lock()
	defer e.env.mu.Unlock()
	if !e.env.running || e.identity == "" {
		return nil
	}
	leases := e.env.Kube.CoordinationV1().Leases("kube-system")
	now := metav1.NewMicroTime(e.env.Time.Now())
	mine := coordinationv1.LeaseSpec{HolderIdentity: &e.identity, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &now, AcquireTime: &now}
	l, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: mine}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	holder, duration := ptr.Deref(l.Spec.HolderIdentity, ""), time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 15))*time.Second
	if !l.Spec.RenewTime.Equal(&e.seen) {
		e.seen, e.since = *l.Spec.RenewTime, now.Time
	}
	switch {
	case holder == e.identity:
		mine.AcquireTime = l.Spec.AcquireTime
	case holder != "" && now.Sub(e.since) < duration:
		return nil
	}
	l.Spec = mine
	_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	return err
}

// The controller cannot release its lease when it is uninstalled, because Helm deletes its roles with it.
func TestInstallAfterUninstall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		helm bool          // uninstalled by helm alone, as by csccm before: the lease stays
		ago  time.Duration // since then
		wait bool          // for the lease
	}{
		"at once":                  {},
		"after 12 minutes":         {ago: 12 * time.Minute},
		"helm, 12 minutes ago":     {helm: true, ago: 12 * time.Minute, wait: true},
		"helm, 75 seconds ago":     {helm: true, ago: 75 * time.Second, wait: true},
		"helm, 20 seconds ago":     {helm: true, ago: 20 * time.Second, wait: true},
		"helm, in the same second": {helm: true, wait: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			l := &election{env: e}
			e.Poll = func() {
				e.controller(t.Context())
				if err := l.turn(t.Context()); err != nil {
					t.Error(err)
				}
			}
			e.pods = func(*appsv1.Deployment) []*corev1.Pod {
				return []*corev1.Pod{{
					ObjectMeta: metav1.ObjectMeta{Name: "ccm-0", CreationTimestamp: metav1.NewTime(e.Time.Now())},
					Spec:       corev1.PodSpec{HostNetwork: true, NodeName: "demo-cp-1"},
				}}
			}
			install := func(identity string) {
				l.identity = identity
				in := e.installer(t, e.keys(t))
				in.checks = func(ctx context.Context, env *check.Env, sel check.Selection, progress func(check.Result)) check.Report {
					sel.Only = []string{"CCM-002"}
					return check.Run(ctx, env, sel, progress)
				}
				require.NoError(t, in.Run(t.Context()), e.Stderr.String())
			}
			holder := func() string {
				l, err := e.Kube.CoordinationV1().Leases("kube-system").Get(t.Context(), leaseName, metav1.GetOptions{})
				require.NoError(t, err)
				return *l.Spec.HolderIdentity
			}
			install("demo-cp-1_first")
			require.Equal(t, "demo-cp-1_first", holder())
			e.Time.Step(time.Hour)
			require.NoError(t, l.turn(t.Context()))
			if tc.helm {
				require.NoError(t, e.Releases.Uninstall(t.Context(), engine.DefaultRelease))
			} else {
				require.NoError(t, uninstall.Run(t.Context(), e.Env.Env, uninstall.Options{}), e.Stderr.String())
			}
			require.Equal(t, "demo-cp-1_first", holder(), "nobody can give it up: the roles went with the Deployment")
			e.Time.Step(tc.ago)
			e.Stderr.Reset()
			install("demo-cp-1_second")
			require.Equal(t, "demo-cp-1_second", holder())
			if tc.wait {
				require.Contains(t, e.Stderr.String(), "Waiting for a leader")
			}
		})
	}
}
