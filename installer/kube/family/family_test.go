// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package family

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/testenv/cases"
)

type controllerCase struct {
	Deployment string            `json:"deployment"`
	Labels     map[string]string `json:"labels"`
	Container  corev1.Container  `json:"container"`
	Family     Family            `json:"family"`
	Lease      string            `json:"lease"`
}

func TestRecognise(t *testing.T) {
	cases.Run(t, "testdata/recognise.yaml", func(t *testing.T, _ string, c controllerCase) {
		t.Helper()
		d := leftby.Controller(c.Deployment, c.Container.Image, c.Labels, c.Container.Args...)
		d.Spec.Template.Spec.Containers[0].Env = c.Container.Env
		w := cluster.DeploymentOf(d)
		p := of(&w)
		require.Equal(t, c.Family, p.Family)
		if c.Lease == "" {
			require.Nil(t, p.Lease)
		} else {
			require.Equal(t, &lease.Name{Namespace: "kube-system", Name: c.Lease}, p.Lease)
		}
	})
}

// The lease is read from every kind of workload in the chart: it decides which controller stops first.
func TestLeaseOfAChart(t *testing.T) {
	t.Parallel()
	mine := lease.Name{Namespace: "infra", Name: "mine"}
	for kind, want := range map[string]lease.Name{"Deployment": mine, "DaemonSet": mine, "StatefulSet": lease.Default} {
		manifest := "apiVersion: v1\nkind: ServiceAccount\n---\napiVersion: apps/v1\nkind: " + kind + `
metadata: {name: ccm, labels: {app.kubernetes.io/name: named-by-its-owner}}
spec: {template: {spec: {containers: [{name: ccm, args: [--leader-elect-resource-name=mine, --leader-elect-resource-namespace=infra]}]}}}
`
		own := Own{Lease: lease.Default}
		own.FromChart(manifest)
		require.Equal(t, want, own.Lease, kind)
	}
}

// rivalCase is what is in a cluster.
type rivalCase struct {
	Words       []string               `json:"words"` // arguments of the release's controller
	Deployments []appsv1.Deployment    `json:"deployments"`
	DaemonSets  []appsv1.DaemonSet     `json:"daemonSets"`
	Pods        []corev1.Pod           `json:"pods"`
	Nodes       []corev1.Node          `json:"nodes"`
	Leases      []coordinationv1.Lease `json:"leases"`
	Services    []struct {
		Service corev1.ServiceSpec `json:"service"` // of Service default/web
		Writer  string             `json:"writer"`  // field manager that wrote its status
	} `json:"services"`
	Want string `json:"want"`
}

// Rivals are found by arguments, leases and the writer of a Service's status, whatever their names and images.
func TestRivals(t *testing.T) {
	cases.Run(t, "testdata/rivals.yaml", func(t *testing.T, _ string, c rivalCase) {
		t.Helper()
		kube := fake.NewClientset(
			&appsv1.DeploymentList{Items: c.Deployments}, &appsv1.DaemonSetList{Items: c.DaemonSets},
		)

		workloads, err := cluster.Workloads(t.Context(), kube, "", metav1.ListOptions{})
		require.NoError(t, err)
		e := Evidence{
			At:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Release: "ccm", Namespace: "kube-system",
			Words: c.Words, Workloads: workloads, Pods: c.Pods, Nodes: c.Nodes, Leases: c.Leases,
		}
		for _, in := range c.Services {
			s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: in.Service}
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
			s.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:type":{}}}`)},
				{
					Manager:     in.Writer,
					Subresource: "status",
					FieldsV1:    metav1.NewFieldsV1(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`),
				},
			}
			e.Services = append(e.Services, s)
		}

		got := e.Rivals()
		if c.Want == "" {
			require.Empty(t, got)
			return
		}
		require.Len(t, got, 1)
		require.Contains(t, got[0].String(), c.Want)
	})
}
