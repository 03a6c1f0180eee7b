// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/takeover/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
)

// bed is a recorded state, in the simulator and in a fake API server.
type bed struct {
	kube   *fake.Clientset
	client *cloudstack.Client
	config *cloudstack.Config
	sim    *simulator.Simulator

	mu  sync.Mutex
	log []string // writes to workloads, leases and rules, in order
}

func newBed(t *testing.T, state string, old ...runtime.Object) *bed {
	t.Helper()
	s, err := leftby.Load(state)
	require.NoError(t, err)
	world, err := s.World()
	require.NoError(t, err)
	b := &bed{}
	b.sim, err = simulator.New(simulator.Options{World: world})
	require.NoError(t, err)
	t.Cleanup(b.sim.Close)
	server := httptest.NewServer(b.sim.Handler())
	t.Cleanup(server.Close)
	config := cloudstack.DefaultConfig()
	config.APIURL = server.URL + "/client/api"
	var found bool
	config.APIKey, config.SecretKey, found = b.sim.Keys(leftby.Account)
	require.True(t, found)
	b.config = &config
	b.client, err = cloudstack.NewClient(&config)
	require.NoError(t, err)
	t.Cleanup(b.client.CloseIdleConnections)

	objects := old
	for i := range s.Kubernetes.Services {
		objects = append(objects, &s.Kubernetes.Services[i])
	}
	for i := range s.Kubernetes.Nodes {
		objects = append(objects, &s.Kubernetes.Nodes[i])
	}
	for i := range s.Kubernetes.Leases {
		objects = append(objects, &s.Kubernetes.Leases[i])
	}
	b.kube = fake.NewClientset(objects...)
	b.watch(t)
	return b
}

// watch notes writes, and plays the controllers: the old one's Pod ends with its Deployment, and ours
// takes the lease as soon as it is free.
func (b *bed) watch(t *testing.T) {
	t.Helper()
	b.kube.PrependReactor("*", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		verb := a.GetVerb()
		if verb != "get" && verb != "list" && verb != "watch" {
			b.note(verb + " " + a.GetResource().Resource)
		}
		return false, nil, nil
	})
	b.kube.PrependReactor("patch", "deployments", func(a ktesting.Action) (bool, runtime.Object, error) {
		patch, _ := a.(ktesting.PatchAction)
		if strings.Contains(string(patch.GetPatch()), `"replicas":0`) {
			_ = b.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), a.GetNamespace(), "old-pod")
		}
		return false, nil, nil
	})
	b.kube.PrependReactor("update", "leases", func(a ktesting.Action) (bool, runtime.Object, error) {
		update, _ := a.(ktesting.UpdateAction)
		l, _ := update.GetObject().(*coordinationv1.Lease)
		if by := holder(l); by == "" {
			b.note("lease free")
			ours, now := "ours_1", metav1.NewMicroTime(time.Now())
			l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &ours, &now, ptr.To(int32(15))
		} else {
			b.note("lease of " + strings.SplitAfter(by, "_")[0])
		}
		return false, nil, nil
	})
}

func (b *bed) note(s string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, s)
}

func (b *bed) notes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.log...)
}

func (b *bed) facts(t *testing.T) *Facts {
	t.Helper()
	f, err := Detect(t.Context(), Source{Kube: b.kube, API: b.client, Config: b.config, Release: "cloudstack-ccm", Namespace: "kube-system"})
	require.NoError(t, err)
	return f
}

func (b *bed) taker(t *testing.T, p *Plan) *Taker {
	t.Helper()
	return &Taker{
		Kube: b.kube, API: b.client, Jobs: b.client.Jobs(), Namespace: "kube-system", Clock: clock.RealClock{}, Progress: report.Quiet(),
		Plan: p, Dir: t.TempDir(), APIURL: b.config.APIURL,
	}
}

func run(ctx context.Context, steps []Step) error {
	for _, s := range steps {
		if err := s.Do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rules are the ids of the rules by address and port.
func (b *bed) rules(t *testing.T) map[string]cloudstack.LoadBalancerRule {
	t.Helper()
	list, err := b.client.ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	require.NoError(t, err)
	out := map[string]cloudstack.LoadBalancerRule{}
	for _, r := range list {
		out[r.ID] = r
	}
	return out
}

func controller(name, image string, labels map[string]string, args ...string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": name}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				ServiceAccountName: name, Containers: []corev1.Container{{Name: name, Image: image, Args: args}},
			}},
		},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
}

// apacheObjects are what Apache's manifest consists of, and somebody else's roles beside it.
func apacheObjects() []runtime.Object {
	const name = "cloud-controller-manager"
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: name}
	role := func(kind, of string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: of}
	}
	return []runtime.Object{
		controller(name, "apache/cloudstack-kubernetes-provider:v1.2.0", map[string]string{"k8s-app": name}, "--leader-elect=true", "--cloud-provider=external-cloudstack"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "old-pod", Labels: map[string]string{"k8s-app": name}}, Spec: corev1.PodSpec{ServiceAccountName: name}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:" + name}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shared"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:" + name}, RoleRef: role("ClusterRole", "system:"+name), Subjects: []rbacv1.Subject{account}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "both"}, RoleRef: role("ClusterRole", "shared"), Subjects: []rbacv1.Subject{account, {Kind: "User", Name: "jane"}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "reader"}, RoleRef: role("Role", "extension-apiserver-authentication-reader"), Subjects: []rbacv1.Subject{account}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other"}, RoleRef: role("Role", "x"), Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloudstack-secret"}},
	}
}

func ours() *appsv1.Deployment {
	return controller("cloudstack-cloud-controller-manager", "x", map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "cloudstack-ccm"}, "--leader-elect=true")
}
