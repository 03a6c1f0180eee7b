// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Lease is where the controller elects its leader.
type Lease struct{ Namespace, Name string }

// GatherCluster reads what the gates of the whole cluster look at, except OldRules.
func GatherCluster(ctx context.Context, kube kubernetes.Interface, namespace, release string, lease Lease, c clock.PassiveClock) (*ClusterFacts, error) {
	f := &ClusterFacts{}
	review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	f.MayPatch = review.Status.Allowed
	deployments, err := kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	f.Deployments = deployments.Items
	own, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + release})
	if err != nil {
		return nil, err
	}
	for i := range own.Items {
		for _, cond := range own.Items[i].Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
				f.ControllerReady++
			}
		}
	}
	l, err := kube.CoordinationV1().Leases(lease.Namespace).Get(ctx, lease.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil && l.Spec.HolderIdentity != nil && l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil &&
		c.Since(l.Spec.RenewTime.Time) <= 2*time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
		f.Leader = *l.Spec.HolderIdentity
	}
	volumes, err := kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	f.Volumes, f.Pods = volumes.Items, pods.Items
	return f, f.webhooks(ctx, kube)
}

func (f *ClusterFacts) webhooks(ctx context.Context, kube kubernetes.Interface) error {
	mutating, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			if w := &mutating.Items[i].Webhooks[j]; asksAboutNodes(w.Rules, w.FailurePolicy) {
				f.Webhooks = append(f.Webhooks, Webhook{mutating.Items[i].Name, w.Name})
			}
		}
	}
	validating, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			if w := &validating.Items[i].Webhooks[j]; asksAboutNodes(w.Rules, w.FailurePolicy) {
				f.Webhooks = append(f.Webhooks, Webhook{validating.Items[i].Name, w.Name})
			}
		}
	}
	return nil
}
