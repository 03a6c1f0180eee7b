// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/testenv"
)

// serviceOf is the service of a simulated CloudStack, with --yes and without a terminal.
func serviceOf(t *testing.T, cloud *testenv.Cloud) (*Service, *testenv.Env) {
	t.Helper()
	e := testenv.New(t)
	e.Cluster = nil
	return &Service{Env: e.Env, API: cloud.Client(t, "")}, e
}

// inSupplied creates cluster demo in a network that was there before, with an address and a rule of Service default/web.
func inSupplied(t *testing.T, cloud *testenv.Cloud) *corev1.Service {
	t.Helper()
	_, address := cloud.Supplied(t)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: address}}}},
	}
}

// The Services go first, and the cluster only when the controller has removed their rules, and with them their finalizer.
func TestDeleteRemovesServices(t *testing.T) {
	t.Parallel()
	for name, controller := range map[string]bool{"with a controller": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := testenv.NewCKS(t)
			web := inSupplied(t, cloud)
			s, e := serviceOf(t, cloud)
			classy := web.DeepCopy() // of another controller, on the same address
			classy.Name, classy.UID, classy.Spec.LoadBalancerClass = "classy", "2", ptr.To("other.example.org/lb")
			kube := fake.NewClientset(web, classy)
			deleted := false
			kube.PrependReactor("delete", "services", func(ktesting.Action) (bool, runtime.Object, error) {
				waits := !deleted || !controller // for its finalizer
				deleted = true
				return waits, nil, nil
			})
			s.Kube = func(string) (kubernetes.Interface, error) { return kube, nil }
			err := s.Run(t.Context(), Delete, "demo", Options{RemoveServices: true})
			left, lerr := s.clusters(t.Context())
			require.NoError(t, lerr)
			require.Contains(t, e.Said(), "delete Service default/web with its load balancer")
			require.NotContains(t, e.Said(), "default/classy")
			if controller {
				require.NoError(t, err)
				require.Empty(t, left)
				return
			}
			testenv.RequireRefusal(t, err, "cluster demo was not deleted: of its Services 1 are left after 5m0s, such as default/web", "csccm doctor", 1)
			require.Len(t, left, 1)
		})
	}
}

// What is installed into a new cluster gets its kubeconfig; a second run goes on where that failed.
func TestCreateInstalls(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	s, e := serviceOf(t, cloud)
	var given string
	broken := errors.New("no Pod of the controller starts")
	o := Options{Zone: "zone-1", Offering: "node", Install: func(_ context.Context, kubeconfig string) error {
		given = kubeconfig
		return broken
	}}
	err := s.Run(t.Context(), Create, "demo", o)
	require.ErrorContains(t, err, "cluster demo runs, but csccm is not ready there, and the same command again goes on with the install: no Pod of the controller starts")
	require.Contains(t, given, "clusters:")
	broken = nil
	require.NoError(t, s.Run(t.Context(), Create, "demo", o))
	require.Contains(t, e.Stdout.String(), "when it runs, install      csccm")
	require.Equal(t, 1, cloud.Ledger().Count("createKubernetesCluster"))
	journal, err := os.ReadFile(e.Journal)
	require.NoError(t, err)
	require.Contains(t, string(journal), "installed csccm")
	require.NotContains(t, string(journal)+e.Said(), "client-key-data")
}
