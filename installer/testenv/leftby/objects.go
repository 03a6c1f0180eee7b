// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package leftby

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/testenv/fakekube"
)

// Controller returns the Deployment of a cloud controller manager.
func Controller(name, image string, labels map[string]string, args ...string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": name}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				ServiceAccountName: name, Containers: []corev1.Container{{Name: name, Image: image, Args: args}},
			}},
		},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}
}

// ApacheObjects returns Apache's controller, its Pod and its Secret.
func ApacheObjects() []runtime.Object {
	const name = "cloud-controller-manager"
	return []runtime.Object{
		Controller(name, "apache/cloudstack-kubernetes-provider:v1.2.0", map[string]string{"k8s-app": name},
			"--leader-elect=true", "--cloud-provider=external-cloudstack"),
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system",
				Name:      "old-pod",
				Labels:    map[string]string{"k8s-app": name},
			},
			Spec: corev1.PodSpec{ServiceAccountName: name},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloudstack-secret"}},
	}
}

// Play reports writes to note, and simulates the controllers: the Pod of the old one disappears when its Deployment is
// scaled to zero, and ours takes the lease as soon as it is free.
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
