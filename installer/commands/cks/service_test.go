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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/testenv"
)

// service is the service of a simulated CloudStack, with --yes and without a terminal.
func service(t *testing.T, cloud *testenv.Cloud) (*Service, *testenv.Env) {
	t.Helper()
	e := testenv.New(t)
	e.Cluster = nil
	return &Service{Env: e.Env, API: cloud.Client(t, "")}, e
}

// inSupplied creates cluster demo in a network that was there before, with an address and a rule of Service default/web.
func inSupplied(t *testing.T, cloud *testenv.Cloud) (ruleID string, web *corev1.Service) {
	t.Helper()
	ruleID, address := cloud.Supplied(t)
	return ruleID, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: address}}}},
	}
}

// The Services go first, and the cluster only when the controller has removed their rules.
func TestDeleteRemovesServices(t *testing.T) {
	t.Parallel()
	for name, controller := range map[string]bool{"with a controller": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := testenv.NewCKS(t)
			ruleID, web := inSupplied(t, cloud)
			s, e := service(t, cloud)
			classy := web.DeepCopy() // of another controller, on the same address
			classy.Name, classy.UID, classy.Spec.LoadBalancerClass = "classy", "2", ptr.To("other.example.org/lb")
			kube := fake.NewClientset(web, classy)
			s.Kube = func(string) (kubernetes.Interface, error) { return kube, nil }
			e.Poll = func() {
				if controller { // it removes the rule of a Service that is gone
					if sent, err := s.API.DeleteLoadBalancerRule(t.Context(), ruleID); err == nil {
						_, _ = s.API.Jobs().Wait(t.Context(), "deleteLoadBalancerRule", sent.JobID)
					}
				}
			}
			err := s.Delete(t.Context(), "demo", DeleteOptions{RemoveServices: true})
			left, lerr := s.clusters(t.Context())
			require.NoError(t, lerr)
			require.Contains(t, e.Said(), "before that, delete Service default/web with its load balancer")
			require.NotContains(t, e.Said(), "default/classy")
			_, kerr := kube.CoreV1().Services("default").Get(t.Context(), "classy", metav1.GetOptions{})
			require.NoError(t, kerr)
			if controller {
				require.NoError(t, err)
				require.Empty(t, left)
				return
			}
			testenv.RequireRefusal(t, err, "cluster demo was not deleted: of its Services these are left after 5m0s: rule K8s_svc_demo_default_web-tcp-80 on", "csccm doctor", 1)
			require.Len(t, left, 1)
		})
	}
}

// On a terminal the Services are offered to go first.
func TestDeleteAsksForServices(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	_, web := inSupplied(t, cloud)
	s, e := service(t, cloud)
	s.Kube = func(string) (kubernetes.Interface, error) { return fake.NewClientset(web), nil }
	e.Answers("no", "no")
	err := s.Delete(t.Context(), "demo", DeleteOptions{})
	testenv.RequireRefusal(t, err, "not confirmed", "", 2)
	require.Contains(t, e.Said(), "Delete the cluster's 1 Service of type LoadBalancer first")
	require.Contains(t, e.Said(), "address 203.0.113.", "what would stay is named")
}

// What is installed into a new cluster gets its kubeconfig; a second run goes on where that failed.
func TestCreateInstalls(t *testing.T) {
	t.Parallel()
	cloud := testenv.NewCKS(t)
	s, e := service(t, cloud)
	var given string
	broken := errors.New("no Pod of the controller starts")
	o := CreateOptions{Name: "demo", Zone: "zone-1", Offerings: Offerings{All: "node"}, With: []string{"csccm"}, Install: func(_ context.Context, cluster, kubeconfig string) error {
		require.Equal(t, "demo", cluster)
		given = kubeconfig
		return broken
	}}
	err := s.Create(t.Context(), o)
	testenv.RequireRefusal(t, err, "cluster demo runs, but csccm is not ready there: no Pod of the controller starts", "run the same command again", 1)
	require.Contains(t, given, "clusters:")
	broken = nil
	require.NoError(t, s.Create(t.Context(), o))
	require.Contains(t, e.Stdout.String(), "when it runs, install csccm")
	require.Equal(t, 1, cloud.Ledger().Count("createKubernetesCluster"))
	journal, err := os.ReadFile(e.Journal)
	require.NoError(t, err)
	require.Contains(t, string(journal), "installed csccm")
	require.NotContains(t, string(journal)+e.Said(), "client-key-data")
}
