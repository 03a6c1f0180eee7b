// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// GatherCluster reads what the gates of the whole cluster look at, except OldRules.
func GatherCluster(ctx context.Context, kube kubernetes.Interface, namespace, release string, lease takeover.LeaseName, c clock.PassiveClock) (*ClusterFacts, error) {
	f := &ClusterFacts{}
	review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	f.MayPatch = review.Status.Allowed
	f.Deployments = cluster.List(ctx, &err, kube.AppsV1().Deployments(metav1.NamespaceAll).List).Items
	f.Volumes = cluster.List(ctx, &err, kube.CoreV1().PersistentVolumes().List).Items
	f.Pods = cluster.List(ctx, &err, kube.CoreV1().Pods(metav1.NamespaceAll).List).Items
	if err != nil {
		return nil, err
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		if p.Namespace == namespace && cluster.InRelease(p.Labels, release) && cluster.PodReady(p) {
			f.ControllerReady++
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
	return f, f.webhooks(ctx, kube)
}

func (f *ClusterFacts) webhooks(ctx context.Context, kube kubernetes.Interface) error {
	var err error
	mutating := cluster.List(ctx, &err, kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List).Items
	validating := cluster.List(ctx, &err, kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List).Items
	if err != nil {
		return err
	}
	add := func(configuration, name string, rules []admissionv1.RuleWithOperations, policy *admissionv1.FailurePolicyType) {
		if asksAboutNodes(rules, policy) {
			f.Webhooks = append(f.Webhooks, Webhook{configuration, name})
		}
	}
	for i := range mutating {
		for _, w := range mutating[i].Webhooks {
			add(mutating[i].Name, w.Name, w.Rules, w.FailurePolicy)
		}
	}
	for i := range validating {
		for _, w := range validating[i].Webhooks {
			add(validating[i].Name, w.Name, w.Rules, w.FailurePolicy)
		}
	}
	return nil
}
