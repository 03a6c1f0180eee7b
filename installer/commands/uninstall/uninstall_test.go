// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/testenv"
)

func newEnv(t *testing.T, objects ...runtime.Object) *testenv.Env {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: testenv.Namespace, Name: credentials.SecretName}
	e := testenv.New(t, append(objects,
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"cloud-config": []byte("canary")}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.Namespace, Name: credentials.CAConfigMap}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{ProviderID: "external-cloudstack://1"}},
	)...)
	e.Releases.Kept = []helm.Release{{Name: "cloudstack-ccm", Revision: 2, Status: "deployed", ChartVersion: "1.0.0"}}
	return e
}

func balanced(name string, class *string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{"other", helpers.LoadBalancerCleanupFinalizer}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}}},
	}
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	class := "other.example.org/lb"
	e := newEnv(t, balanced("others", &class))
	nodes := func() []corev1.Node {
		list, err := e.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return list.Items
	}
	before := nodes()
	require.NoError(t, Run(t.Context(), e.Env, Options{}), e.Stderr.String())
	require.NotNil(t, e.Secret(t, credentials.SecretName))
	require.Equal(t, before, nodes(), "nodes are not touched")
	require.Nil(t, e.Releases.Release())
	for _, want := range []string{
		"delete      Helm release kube-system/cloudstack-ccm, chart 1.0.0",
		"keep        Secret kube-system/cloudstack-secret (--delete-secret removes it)",
		"keep        provider IDs, labels and addresses of the nodes",
	} {
		require.Contains(t, e.Stdout.String(), want)
	}
	require.NotContains(t, e.Stdout.String(), "others", "a Service of another controller")

	// Again, now with the Secret: nothing else is left to do.
	e.Stdout.Reset()
	e.Output = "json"
	require.NoError(t, Run(t.Context(), e.Env, Options{DeleteSecret: true}))
	require.Nil(t, e.Secret(t, credentials.SecretName))
	var p engine.Plan
	require.NoError(t, json.Unmarshal(e.Stdout.Bytes(), &p))
	require.Equal(t, []string{"deleted Secret kube-system/cloudstack-secret", "deleted ConfigMap kube-system/cloudstack-ca"}, p.Done)

	// And again.
	e.Stdout.Reset()
	require.NoError(t, Run(t.Context(), e.Env, Options{DeleteSecret: true}))
	require.Contains(t, e.Stdout.String(), "there is nothing to remove")
	require.NotContains(t, e.Said(), "canary")
}

func TestUninstallWithLoadBalancers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, balanced("web", nil))
	for _, dry := range []bool{true, false} {
		e.DryRun = dry
		err := Run(t.Context(), e.Env, Options{})
		testenv.RequireRefusal(t, err, "nothing was changed: there are Services of type LoadBalancer (default/web), and without the controller "+
			"nobody changes their rules or releases their addresses", "--orphan-load-balancers", report.ExitCheckFailed)
		require.NotNil(t, e.Releases.Release())
	}
	require.Contains(t, e.Stdout.String(), "load balancer of Service default/web in CloudStack: address 203.0.113.9 with its rules", "the plan is shown all the same")

	require.NoError(t, Run(t.Context(), e.Env, Options{OrphanLoadBalancers: true}), e.Stderr.String())
	require.Contains(t, e.Stdout.String(), "finalizer "+helpers.LoadBalancerCleanupFinalizer+" of 1 Service: without a controller nobody can delete them")
	s, err := e.Kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"other", helpers.LoadBalancerCleanupFinalizer}, s.Finalizers)
}

func TestUninstallRefuses(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Yes = false
	require.ErrorContains(t, Run(t.Context(), e.Env, Options{}), "there is no terminal")
	e.Answers("no")
	require.ErrorContains(t, Run(t.Context(), e.Env, Options{}), "nothing was changed: not confirmed")
	e.Yes, e.Journal = true, "/dev/full"
	require.ErrorContains(t, Run(t.Context(), e.Env, Options{}), "nothing has been changed")
	require.NotNil(t, e.Releases.Release())
}
