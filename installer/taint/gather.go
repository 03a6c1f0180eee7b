// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/lease"
)

// GatherCluster reads what the gates of the whole cluster look at, except OldRules.
func GatherCluster(ctx context.Context, kube kubernetes.Interface, namespace, release string, name lease.Name, c clock.PassiveClock) (*ClusterFacts, error) {
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
	l, err := lease.Get(ctx, kube, name)
	if err != nil {
		return nil, err
	}
	if age, lasts, held := lease.Age(l, c); held && age <= 2*lasts {
		f.Leader = lease.Holder(l)
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
