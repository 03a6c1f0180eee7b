// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/testenv"
)

func TestUninstallReleasesTheLease(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for name, tc := range map[string]struct {
		holder   string
		renews   bool
		released bool
	}{
		"held by the Pod, which has ended": {holder: "ccm-1_9f", released: true},
		"held by another controller":       {holder: "apache-7_9f", renews: true},
		"held by nobody":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := testenv.ReadyPod("ccm-1")
			renewed := metav1.NewMicroTime(now.Add(-time.Second))
			lease := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &tc.holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &renewed},
			}
			e := newEnv(t, pod, lease)
			leases := e.Kube.CoordinationV1().Leases("kube-system")
			e.Poll = func() {
				if !tc.renews {
					return
				}
				l, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
				if err == nil {
					l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(l.Spec.RenewTime.Add(time.Second)))
					_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			}
			e.Releases.Changed = func(ctx context.Context, _ *helm.Release) error { // the Pods end with the release
				return e.Kube.CoreV1().Pods("kube-system").Delete(ctx, pod.Name, metav1.DeleteOptions{})
			}
			require.NoError(t, Run(t.Context(), e.Env, Options{}), e.Stderr.String())
			l, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
			require.NoError(t, err)
			if tc.released {
				require.Empty(t, *l.Spec.HolderIdentity, e.Stderr.String())
				require.Contains(t, e.Stdout.String(), "delete  holder of Lease kube-system/cloud-controller-manager")
				return
			}
			require.Equal(t, tc.holder, *l.Spec.HolderIdentity, e.Stderr.String())
		})
	}
}
