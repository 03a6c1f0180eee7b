// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/event"
)

// ConditionReady on a Service reports whether its load balancer is reconciled, and if not, why.
const ConditionReady = "csccm.io/LoadBalancerReady"

// maxConditionMessage is the API server's limit for a condition's message.
const maxConditionMessage = 32768

// conditions are what a sync that ended with err shows on the Service. unserved says why nobody is served although it
// succeeded; nil when there is no reason.
func conditions(unserved *plan.Notice, err error) []metav1.Condition {
	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: string(event.Reconciled)}
	ports := metav1.Condition{Type: corev1.LoadBalancerPortsError, Status: metav1.ConditionFalse, Reason: string(event.Reconciled)}
	if err == nil {
		if unserved != nil {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(unserved.Reason), unserved.Message
		}
		return []metav1.Condition{ready, ports}
	}
	ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(event.CloudStackError), err.Error()
	refusal, refused := errors.AsType[*plan.RefusalError](err)
	_, waiting := errors.AsType[*plan.WaitError](err)
	switch {
	case refused:
		ready.Reason, ready.Message = string(refusal.Reason), refusal.Error()
		if refusal.Port != 0 {
			ports.Status, ports.Reason, ports.Message = metav1.ConditionTrue, string(refusal.Reason), refusal.Error()
			if refusal.Reason == plan.ReasonMixedProtocols {
				ports.Reason = corev1.LoadBalancerPortsErrorReason
			}
		}
	case waiting:
		ready.Reason = string(event.Waiting)
	}
	for _, c := range []*metav1.Condition{&ready, &ports} {
		if len(c.Message) > maxConditionMessage {
			c.Message = c.Message[:maxConditionMessage]
		}
	}
	return []metav1.Condition{ready, ports}
}

// showCondition writes the conditions to the Service if they say something new. That is no part of the sync:
// a failure is logged only.
func (lb *loadBalancer) showCondition(ctx context.Context, svc *corev1.Service, unserved *plan.Notice, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	shown := svc.Status.DeepCopy().Conditions
	lb.with(svc.UID, func(s *serviceState) {
		if s.shown != nil {
			shown = s.shown
		}
	})
	var changed []metav1.Condition
	for _, c := range conditions(unserved, err) {
		was := apimeta.FindStatusCondition(shown, c.Type)
		if was == nil && c.Type == corev1.LoadBalancerPortsError && c.Status == metav1.ConditionFalse {
			continue // it says nothing until it was true once
		}
		if was != nil && was.Status == c.Status && was.Reason == c.Reason && was.Message == c.Message {
			continue
		}
		c.LastTransitionTime = metav1.Time{Time: lb.deps.Clock.Now()}
		if was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		apimeta.SetStatusCondition(&shown, c)
		changed = append(changed, c)
	}
	status := map[string]any{}
	if len(changed) > 0 {
		status["conditions"] = changed
	}
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok && refusal.Port != 0 {
		if ingress := ingressWithError(svc, refusal); ingress != nil {
			status["loadBalancer"] = map[string]any{"ingress": ingress}
		}
	}
	if len(status) == 0 {
		return
	}
	if perr := lb.patchStatus(ctx, svc, status); perr != nil {
		klog.ErrorS(perr, "The conditions of a Service could not be written", "service", klog.KObj(svc))
		return
	}
	lb.with(svc.UID, func(s *serviceState) { s.shown = shown })
}

// ingressWithError marks the port that is the reason of a refusal in the status; nil when there is none to mark.
func ingressWithError(svc *corev1.Service, refusal *plan.RefusalError) []corev1.LoadBalancerIngress {
	status := svc.Status.DeepCopy()
	reason := string(refusal.Reason)
	marked := false
	for i := range status.LoadBalancer.Ingress {
		in := &status.LoadBalancer.Ingress[i]
		for j := range in.Ports {
			if p := &in.Ports[j]; int(p.Port) == refusal.Port && (p.Error == nil || *p.Error != reason) {
				p.Error, marked = &reason, true
			}
		}
	}
	if !marked {
		return nil
	}
	return status.LoadBalancer.Ingress
}

// clearCondition removes the conditions from a Service that stays, but is no load balancer any more.
func (lb *loadBalancer) clearCondition(ctx context.Context, svc *corev1.Service) {
	if svc.DeletionTimestamp != nil || apimeta.FindStatusCondition(svc.Status.Conditions, ConditionReady) == nil {
		return
	}
	gone := []map[string]string{{"$patch": "delete", "type": ConditionReady}, {"$patch": "delete", "type": corev1.LoadBalancerPortsError}}
	if err := lb.patchStatus(ctx, svc, map[string]any{"conditions": gone}); err != nil {
		klog.ErrorS(err, "The conditions of a Service could not be removed", "service", klog.KObj(svc))
	}
}

// patchStatus merges into the status of a Service; its UID keeps another one of the same name from being meant.
func (lb *loadBalancer) patchStatus(ctx context.Context, svc *corev1.Service, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": svc.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = lb.deps.Kube.CoreV1().Services(svc.Namespace).Patch(ctx, svc.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
