// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/annotation"
)

func TestUpgradeNamesWhatThePolicyRefuses(t *testing.T) {
	t.Parallel()
	embedded, err := helm.Embedded()
	require.NoError(t, err)
	was := release(1, "deployed", "0.0.1", nil)
	e := newEnv(t, was)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{annotation.Network: "n"}}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	require.NoError(t, e.Kube.Tracker().Add(s))
	require.NoError(t, run(t, e, Options{Chart: embedded}))
	require.Contains(t, e.Stderr.String(), "Service shop/web is refused")
	require.Contains(t, e.Stdout.String(), "! Service shop/web is refused")
}
