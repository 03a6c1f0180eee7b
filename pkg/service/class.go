// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/pkg/annotation"
)

// Classes are the load balancer classes that the controller serves. They alone decide whether the controller handles a
// Service. The zero value serves Services without a class.
type Classes struct {
	// Own is the class that is served; empty for none.
	Own string
	// Classless means that Services without a class are served in addition to those of Own.
	Classless bool
}

// ConditionClass is the condition whose message is the class of a Service; a Service without a class does not have it.
// With it, the controller distinguishes a Service whose owner changed the class, which is cleaned up, from one whose
// class the controller no longer serves.
const ConditionClass = "csccm.io/LoadBalancerClass"

// Serves reports whether the controller serves Services of a class; the empty class means Services without one.
func (c Classes) Serves(class string) bool {
	return class == c.Own || class == "" && c.Classless
}

// Handles reports whether the controller works on a Service: one that wants a load balancer from it, or one that still
// has what this controller has added. The finalizer alone does not prove that, because other controllers use the same
// one.
func (c Classes) Handles(svc *corev1.Service) bool {
	return c.Wants(svc) || hasRecords(svc) || servicehelpers.HasLBFinalizer(svc) && c.Serves(ClassOf(svc))
}

// Wants reports whether a Service should have a load balancer of this controller, or already has one that it keeps.
func (c Classes) Wants(svc *corev1.Service) bool {
	return svc.DeletionTimestamp == nil &&
		svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		(c.Serves(ClassOf(svc)) || servedBefore(svc))
}

// ClassOf returns the class of a Service; empty for none.
func ClassOf(svc *corev1.Service) string { return ptr.Deref(svc.Spec.LoadBalancerClass, "") }

// servedBefore reports whether a Service has a load balancer of this controller for its current class. Its owner has
// changed nothing, so the Service keeps the load balancer whichever classes the controller serves now. The conditions
// prove that, because owners may not write them.
func servedBefore(svc *corev1.Service) bool {
	return (svc.Annotations[annotation.Addresses] != "" || len(svc.Status.LoadBalancer.Ingress) > 0) &&
		Ready(svc).Type != "" &&
		conditionOf(svc, ConditionClass).Message == ClassOf(svc)
}

// Ready returns the condition that the controller writes first; a condition without a type if the Service does not have
// it.
func Ready(svc *corev1.Service) metav1.Condition { return conditionOf(svc, ConditionReady) }

// conditionOf returns a condition of a Service; a condition without a type if the Service does not have it.
func conditionOf(svc *corev1.Service, kind string) metav1.Condition {
	return ptr.Deref(apimeta.FindStatusCondition(svc.Status.Conditions, kind), metav1.Condition{})
}

// hasRecords reports whether a Service has what only this controller writes: records of addresses or its condition.
func hasRecords(svc *corev1.Service) bool {
	return svc.Annotations[annotation.Addresses]+svc.Annotations[annotation.Allocation] != "" ||
		Ready(svc).Type != ""
}
