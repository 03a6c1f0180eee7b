// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
)

func topics(r *Report) (warned, failed []string) {
	for _, f := range r.Findings {
		switch {
		case f.Failed:
			failed = append(failed, f.Topic)
		case !f.OK:
			warned = append(warned, f.Topic)
		}
	}
	return warned, failed
}

func TestJudge(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change         func(f *Facts)
		warned, failed []string
	}{
		"all well":              {func(*Facts) {}, nil, nil},
		"no Secret":             {func(f *Facts) { f.Secret = "does not exist" }, nil, []string{"secret"}},
		"its own would return":  {func(f *Facts) { f.Pods = nil }, nil, []string{"provider"}},
		"its own is in charge":  {func(f *Facts) { f.Predecessors = []takeover.Predecessor{{Kind: "Deployment", Wanted: 1}} }, []string{"controller"}, nil},
		"its own is stopped":    {func(f *Facts) { f.Predecessors = []takeover.Predecessor{{Kind: "Deployment"}} }, nil, nil},
		"ours is not ready":     {func(f *Facts) { f.Own.Ready = 0 }, nil, []string{"controller"}},
		"kubelets and new node": {func(f *Facts) { f.NotExternal, f.Waiting = []string{"a"}, []string{"a", "b"} }, []string{"kubelets", "nodes"}, nil},
		"nodes are adopted":     {func(f *Facts) { f.NotExternal, f.Adopts = []string{"a"}, true }, nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &Facts{Distribution: cluster.CKS, Pods: []string{"kube-system/cloudstack-cloud-controller-manager-x"}, Own: takeover.Own{Installed: true, Ready: 2}}
			tt.change(f)
			r := Judge(f)
			warned, failed := topics(r)
			require.Equal(t, tt.warned, warned)
			require.Equal(t, tt.failed, failed)
			require.Equal(t, len(tt.failed) > 0, r.Failed())
			for _, x := range r.Findings {
				require.Equal(t, x.OK, x.Remedy == "", x.Topic)
			}
		})
	}
	r := Judge(&Facts{Distribution: cluster.Kubeadm})
	require.False(t, r.CKS)
	require.Len(t, r.Findings, 1)
}

type clusters struct {
	list []cloudstack.KubernetesCluster
	err  error
}

func (c clusters) ListKubernetesClusters(context.Context, string) ([]cloudstack.KubernetesCluster, error) {
	return c.list, c.err
}

type vm struct{ id string }

func (v vm) ByID(string) (cloudstack.VirtualMachine, bool) { return cloudstack.VirtualMachine{}, false }
func (v vm) ByName(name string) []cloudstack.VirtualMachine {
	return []cloudstack.VirtualMachine{{ID: v.id, Name: name, State: cloudstack.VMRunning}}
}

func TestGather(t *testing.T) {
	t.Parallel()
	const name = "cloud-controller-manager"
	kube := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "k-control-18f0a1b2c3d"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "k-node-18f0a1b2c3e"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloudstack-secret"}, Data: map[string][]byte{
			"cloud-config": []byte("[Global]\napi-url = http://cs/client/api\napi-key = k\nsecret-key = s\nproject-id = p\n"),
		}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Args: []string{"--cloud-provider=external-cloudstack"}}}}},
		}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-abc"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}},
	)
	c := cluster.NewForTest(kube)
	api := clusters{list: []cloudstack.KubernetesCluster{{Name: "other", VMs: []string{"x"}}, {Name: "mine", Type: "CloudManaged", VMs: []string{"y", "id"}}}}
	f, err := Gather(t.Context(), c, api, vm{"id"}, "", "cloudstack-ccm")
	require.NoError(t, err)
	require.Equal(t, cluster.CKS, f.Distribution)
	require.Equal(t, "mine", f.Cluster.Name)
	require.Equal(t, []string{"kube-system/" + name + "-abc"}, f.Pods)
	require.Empty(t, f.Secret)
	require.Equal(t, "p", f.Project)
	require.Len(t, f.Predecessors, 1)
	require.Len(t, f.Waiting, 2)
	warned, failed := topics(Judge(f))
	require.Contains(t, warned, "controller")
	require.Empty(t, failed)

	f, err = Gather(t.Context(), c, clusters{err: &cloudstack.Error{Kind: cloudstack.KindNotPermitted}}, vm{"id"}, "", "cloudstack-ccm")
	require.NoError(t, err)
	require.Nil(t, f.Cluster)
	require.Contains(t, f.Why, "may not")
	_, err = Gather(t.Context(), c, clusters{err: &cloudstack.Error{Kind: cloudstack.KindTransient}}, vm{"id"}, "", "cloudstack-ccm")
	require.Error(t, err)
}
