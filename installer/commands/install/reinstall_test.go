// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/inspect"
	"github.com/csccm/csccm/installer/testenv"
)

// An uninstalled controller cannot release its lease, because Helm deletes its roles with it. An install right after
// that waits until the new controller has the lease, and fails if no controller gets it in time.
func TestInstallWaitsForTheLease(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]bool{"the lease runs out": true, "nobody takes it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.pods = func(*appsv1.Deployment) []*corev1.Pod { return []*corev1.Pod{testenv.ReadyPod("ccm-0")} }
			l := testenv.Lease("uninstalled_1")
			renewed := metav1.NewMicroTime(e.Time.Now().Add(-20 * time.Second))
			l.Spec.RenewTime = &renewed
			require.NoError(t, e.Kube.Tracker().Add(l))
			waits := 0
			e.Poll = func() {
				e.controller(t.Context())
				if waits++; free && e.running && waits > 20 {
					now, holder := metav1.NewMicroTime(e.Time.Now()), "ccm-0_2"
					l.Spec.RenewTime, l.Spec.HolderIdentity = &now, &holder
					_, err := e.Kube.CoordinationV1().Leases(l.Namespace).Update(t.Context(), l, metav1.UpdateOptions{})
					if err != nil {
						t.Error(err)
					}
				}
			}

			in := e.installer(t, e.keys(t))
			in.checks = func(
				ctx context.Context, env *inspect.Env, sel check.Selection, progress func(check.Result),
			) (check.Report, *check.Facts) {
				sel.Only = []string{"CCM-002"}
				return inspect.Run(ctx, env, sel, progress)
			}

			err := in.Run(t.Context())
			if free {
				require.NoError(t, err, e.Stderr.String())
				require.Contains(t, e.Stderr.String(), "ok   Waiting for a leader")
				return
			}

			require.ErrorContains(t, err, "installed, but CCM-002 failed")
			require.Contains(t, e.Stderr.String(), "FAIL Waiting for a leader: not within")
		})
	}
}
