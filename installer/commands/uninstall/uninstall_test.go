// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
)

type fakeHelm struct {
	engine.Helm // the rest is not called
	release     *helm.Release
}

func (h *fakeHelm) Get(context.Context, string) (*helm.Release, error) {
	if h.release == nil {
		return nil, helm.ErrReleaseNotFound
	}
	return h.release, nil
}

func (h *fakeHelm) Uninstall(context.Context, string) error {
	h.release = nil
	return nil
}

type bench struct {
	env      *engine.Env
	kube     *fake.Clientset
	helm     *fakeHelm
	out, err bytes.Buffer
}

func newBench(t *testing.T, objects ...runtime.Object) *bench {
	t.Helper()
	b := &bench{
		kube: fake.NewClientset(append(objects,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: credentials.SecretName}, Data: map[string][]byte{"cloud-config": []byte("canary")}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: credentials.CAConfigMap}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{ProviderID: "external-cloudstack://1"}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taint.Key, Effect: corev1.TaintEffectNoSchedule}}}},
		)...),
		helm: &fakeHelm{release: &helm.Release{Name: "cloudstack-ccm", Revision: 2, Status: "deployed", ChartVersion: "1.0.0"}},
	}
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	b.env = &engine.Env{
		Cluster: cluster.NewForTest(b.kube), Helm: b.helm, Prompt: prompt.NewRefusing(), Clock: clock, Release: "cloudstack-ccm", Yes: true,
		Progress: report.NewProgress(&b.err, report.Style{}, clock), Out: &b.out, ErrOut: &b.err, Journal: filepath.Join(t.TempDir(), "journal"),
	}
	return b
}

func balanced(name string, class *string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{"other", Finalizer}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}}},
	}
}

func (b *bench) there(t *testing.T) (secret bool, nodes []corev1.Node, finalizers []string) {
	t.Helper()
	_, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), credentials.SecretName, metav1.GetOptions{})
	list, lerr := b.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, lerr)
	s, serr := b.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if serr == nil {
		finalizers = s.Finalizers
	}
	return err == nil, list.Items, finalizers
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	class := "other.example.org/lb"
	b := newBench(t, balanced("others", &class))
	_, nodes, _ := b.there(t)
	require.NoError(t, Run(t.Context(), b.env, Options{}), b.err.String())
	secret, after, _ := b.there(t)
	require.True(t, secret)
	require.Equal(t, nodes, after, "nodes are not touched")
	require.Nil(t, b.helm.release)
	for _, want := range []string{
		"delete  Helm release kube-system/cloudstack-ccm, chart 1.0.0",
		"stays   Secret kube-system/cloudstack-secret (--delete-secret removes it)",
		"stays   provider IDs, labels and addresses of 2 nodes",
		"!       nodes new wait for a cloud controller manager",
	} {
		require.Contains(t, b.out.String(), want)
	}
	require.NotContains(t, b.out.String(), "others", "a Service of another controller")

	// Again, now with the Secret: nothing else is left to do.
	b.out.Reset()
	b.env.Output = "json"
	require.NoError(t, Run(t.Context(), b.env, Options{DeleteSecret: true}))
	secret, _, _ = b.there(t)
	require.False(t, secret)
	var p Plan
	require.NoError(t, json.Unmarshal(b.out.Bytes(), &p))
	require.Equal(t, []string{"Secret kube-system/cloudstack-secret", "ConfigMap kube-system/cloudstack-ca"}, p.Deletes)
	require.Zero(t, p.Revision)

	// And again.
	b.err.Reset()
	require.NoError(t, Run(t.Context(), b.env, Options{DeleteSecret: true}))
	require.Contains(t, b.err.String(), "there is nothing to remove")
	require.NotContains(t, b.out.String()+b.err.String(), "canary")
}

func TestUninstallWithLoadBalancers(t *testing.T) {
	t.Parallel()
	b := newBench(t, balanced("web", nil))
	for _, dry := range []bool{true, false} {
		b.env.DryRun = dry
		err := Run(t.Context(), b.env, Options{})
		require.EqualError(t, err, "nothing was changed: there are Services of type LoadBalancer (default/web), and without the controller nobody changes their rules or releases their addresses")
		var e *report.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, report.ExitCheckFailed, e.ExitCode())
		require.Contains(t, e.Remedy(), "--orphan-load-balancers")
		require.NotNil(t, b.helm.release)
	}
	require.Contains(t, b.out.String(), "load balancer of Service default/web in CloudStack: address 203.0.113.9 with its rules", "the plan is shown all the same")

	require.NoError(t, Run(t.Context(), b.env, Options{OrphanLoadBalancers: true}), b.err.String())
	_, _, finalizers := b.there(t)
	require.Equal(t, []string{"other", Finalizer}, finalizers)
	require.Contains(t, b.out.String(), "of 1 Service: without a controller nobody can delete them; --remove-finalizers removes it")

	require.NoError(t, Run(t.Context(), b.env, Options{OrphanLoadBalancers: true, RemoveFinalizers: true}), b.err.String())
	_, _, finalizers = b.there(t)
	require.Equal(t, []string{"other"}, finalizers)
}

func TestUninstallRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.ErrorContains(t, Run(t.Context(), b.env, Options{RemoveFinalizers: true}), "--remove-finalizers is for")
	b.env.Yes = false
	require.ErrorContains(t, Run(t.Context(), b.env, Options{}), "there is no terminal")
	b.env.Interactive = true
	b.env.Prompt = prompt.NewLines(strings.NewReader("no\n"), &b.err)
	require.ErrorContains(t, Run(t.Context(), b.env, Options{}), "nothing was changed: not confirmed")
	b.env.Yes, b.env.Journal = true, "/dev/full"
	require.ErrorContains(t, Run(t.Context(), b.env, Options{}), "nothing has been changed")
	require.NotNil(t, b.helm.release)
}
