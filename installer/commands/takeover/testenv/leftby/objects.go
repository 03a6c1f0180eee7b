// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package leftby

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// Controller is the Deployment of a cloud controller manager.
func Controller(name, image string, labels map[string]string, args ...string) *appsv1.Deployment {
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

// ApacheObjects are what Apache's manifest consists of, and somebody else's roles beside it.
func ApacheObjects() []runtime.Object {
	const name = "cloud-controller-manager"
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: name}
	role := func(kind, of string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: of}
	}
	return []runtime.Object{
		Controller(name, "apache/cloudstack-kubernetes-provider:v1.2.0", map[string]string{"k8s-app": name}, "--leader-elect=true", "--cloud-provider=external-cloudstack"),
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

// Play notes writes, and plays the controllers: the old one's Pod ends with its Deployment, and ours
// takes the lease as soon as it is free.
func Play(kube *fakekube.Clientset, note func(string)) {
	kube.PrependReactor("*", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		verb := a.GetVerb()
		if verb != "get" && verb != "list" && verb != "watch" {
			note(verb + " " + a.GetResource().Resource)
		}
		return false, nil, nil
	})
	kube.PrependReactor("patch", "deployments", func(a ktesting.Action) (bool, runtime.Object, error) {
		patch, _ := a.(ktesting.PatchAction)
		if strings.Contains(string(patch.GetPatch()), `"replicas":0`) {
			_ = kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), a.GetNamespace(), "old-pod")
		}
		return false, nil, nil
	})
	kube.PrependReactor("update", "leases", func(a ktesting.Action) (bool, runtime.Object, error) {
		update, _ := a.(ktesting.UpdateAction)
		l, _ := update.GetObject().(*coordinationv1.Lease)
		if by := ptr.Deref(l.Spec.HolderIdentity, ""); by == "" {
			note("lease free")
			ours, now := "ours_1", metav1.NewMicroTime(time.Now())
			l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &ours, &now, ptr.To(int32(15))
		} else {
			note("lease of " + strings.SplitAfter(by, "_")[0])
		}
		return false, nil, nil
	})
}
