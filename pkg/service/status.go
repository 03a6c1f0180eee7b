// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// ConditionReady on a Service reports whether its load balancer is reconciled, and if not, why.
const ConditionReady = "csccm.io/LoadBalancerReady"

// ConditionAddress on a Service whose status shows a hostname has the address in its message.
const ConditionAddress = "csccm.io/LoadBalancerAddress"

// maxConditionMessage is the API server's limit for a condition's message.
const maxConditionMessage = 32768

// patch merges into a Service, and makes the result the newest version of it. The UID in the patch keeps another Service of
// the same name from being changed. A Service that is gone is an error.
func (c *Controller) patch(ctx context.Context, w *work, kind types.PatchType, change map[string]any, subresources ...string) error {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		change["metadata"] = metadata
	}
	metadata["uid"] = w.svc.UID
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	after, err := c.deps.Kube.CoreV1().Services(w.svc.Namespace).Patch(ctx, w.svc.Name, kind, text, metav1.PatchOptions{}, subresources...)
	if err != nil {
		return err
	}
	c.wrote(w.key, after)
	w.svc = after
	return nil
}

// patchFinalizer adds the finalizer to those of the Service, or takes it from them.
func (c *Controller) patchFinalizer(ctx context.Context, w *work, add bool) error {
	key := "$deleteFromPrimitiveList/finalizers"
	if add {
		key = "finalizers"
	}
	return c.patch(ctx, w, types.StrategicMergePatchType, map[string]any{
		"metadata": map[string]any{key: []string{servicehelpers.LoadBalancerCleanupFinalizer}},
	})
}

func (c *Controller) addFinalizer(ctx context.Context, w *work) error {
	if servicehelpers.HasLBFinalizer(w.svc) {
		return nil
	}
	return c.patchFinalizer(ctx, w, true)
}

// release clears the status of a Service that has no load balancer any more, and removes the finalizer.
func (c *Controller) release(ctx context.Context, w *work) error {
	err := c.clearStatus(ctx, w)
	if err == nil && servicehelpers.HasLBFinalizer(w.svc) {
		err = c.patchFinalizer(ctx, w, false)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) && c.gone(ctx, w.svc.Namespace, w.svc.Name, w.svc.UID) {
		return nil
	}
	return err
}

// gone asks the API server itself whether a Service does not exist.
func (c *Controller) gone(ctx context.Context, namespace, name string, uid types.UID) bool {
	svc, err := c.deps.Kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && svc.UID != uid
}

func (c *Controller) clearStatus(ctx context.Context, w *work) error {
	status := map[string]any{}
	if len(w.svc.Status.LoadBalancer.Ingress) > 0 {
		status["loadBalancer"] = map[string]any{"ingress": nil}
	}
	if w.svc.DeletionTimestamp == nil && apimeta.FindStatusCondition(w.svc.Status.Conditions, ConditionReady) != nil {
		var gone []map[string]string
		for _, kind := range []string{ConditionReady, corev1.LoadBalancerPortsError, ConditionAddress} {
			gone = append(gone, map[string]string{"$patch": "delete", "type": kind})
		}
		status["conditions"] = gone
	}
	if len(status) == 0 || !c.exists(w.key) {
		return nil
	}
	return c.patch(ctx, w, types.StrategicMergePatchType, map[string]any{"status": status}, "status")
}

// statusOf is what the Service shows. A hostname takes the place of the address, so that kube-proxy does not take a short
// cut. With the PROXY protocol the mode Proxy says the same of the address.
func statusOf(w *work, ip string) *corev1.LoadBalancerStatus {
	ingress := corev1.LoadBalancerIngress{Hostname: w.spec.Hostname}
	if w.spec.Hostname == "" {
		if ip == "" {
			return &corev1.LoadBalancerStatus{}
		}
		mode := corev1.LoadBalancerIPModeVIP
		if w.spec.ProxyProtocol.Any() {
			mode = corev1.LoadBalancerIPModeProxy
		}
		ingress.IP, ingress.IPMode = ip, &mode
	}
	for _, p := range w.svc.Spec.Ports {
		ingress.Ports = append(ingress.Ports, corev1.PortStatus{Port: p.Port, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)})
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{ingress}}
}

// changeStatus changes the status of a copy of the Service, and patches what differs.
func (c *Controller) changeStatus(ctx context.Context, w *work, do func(*corev1.Service)) error {
	after := w.svc.DeepCopy()
	do(after)
	if apiequality.Semantic.DeepEqual(w.svc, after) {
		return nil
	}
	was, err := json.Marshal(w.svc)
	is, ierr := json.Marshal(after)
	text, perr := strategicpatch.CreateTwoWayMergePatch(was, is, w.svc)
	var patch map[string]any
	if err := errors.Join(err, ierr, perr, json.Unmarshal(text, &patch)); err != nil {
		return err
	}
	return c.patch(ctx, w, types.StrategicMergePatchType, patch, "status")
}

// writeStatus writes what a sync that ended with err shows on the Service, if that is new.
func (c *Controller) writeStatus(ctx context.Context, w *work, out outcome, err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	refusal, refused := errors.AsType[*plan.RefusalError](err)
	all := conditions(out.Unserved, err)
	if err == nil && out.IP != "" {
		all = append(all, addressCondition(w.spec.Hostname, out.IP))
	}
	err = c.changeStatus(ctx, w, func(svc *corev1.Service) {
		for _, cond := range all {
			if cond.Type != ConditionReady && cond.Status == metav1.ConditionFalse && apimeta.FindStatusCondition(svc.Status.Conditions, cond.Type) == nil {
				continue // it says nothing until it was true once
			}
			cond.LastTransitionTime = metav1.Time{Time: c.deps.Clock.Now()}
			apimeta.SetStatusCondition(&svc.Status.Conditions, cond)
		}
		if out.status != nil {
			svc.Status.LoadBalancer = *out.status
		}
		if refused {
			markPort(svc, refusal)
		}
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// conditions are what a sync that ended with err shows on the Service. unserved says why nobody is served although it
// succeeded; nil when there is no reason.
func conditions(unserved *plan.Notice, err error) []metav1.Condition {
	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: string(Reconciled)}
	ports := metav1.Condition{Type: corev1.LoadBalancerPortsError, Status: metav1.ConditionFalse, Reason: string(Reconciled)}
	if err == nil {
		if unserved != nil {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(unserved.Reason), unserved.Message
		}
		return []metav1.Condition{ready, ports}
	}
	ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(CloudStackError), err.Error()
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
		ready.Reason = string(Waiting)
	}
	for _, c := range []*metav1.Condition{&ready, &ports} {
		if len(c.Message) > maxConditionMessage {
			c.Message = c.Message[:maxConditionMessage]
		}
	}
	return []metav1.Condition{ready, ports}
}

// addressCondition names the address that a hostname takes the place of. The address book has no other word of the
// controller for it: records may be forged where no policy protects them, the status may not.
func addressCondition(hostname, ip string) metav1.Condition {
	c := metav1.Condition{Type: ConditionAddress, Status: metav1.ConditionFalse, Reason: string(Reconciled)}
	if hostname != "" {
		c.Status, c.Message = metav1.ConditionTrue, ip
	}
	return c
}

// markPort marks the port that is the reason of a refusal in the status.
func markPort(svc *corev1.Service, refusal *plan.RefusalError) {
	for _, in := range svc.Status.LoadBalancer.Ingress {
		for j := range in.Ports {
			if p := &in.Ports[j]; int(p.Port) == refusal.Port {
				p.Error = new(string(refusal.Reason))
			}
		}
	}
}

// recordStore keeps the records in the annotations of the Service that is worked on.
type recordStore struct {
	c *Controller
	w *work
}

// Load reads the Service from the API server. It fails when the Service is gone, being deleted, or another one of the same
// name: nothing may be acquired for it then.
func (s *recordStore) Load(ctx context.Context) (annotation.Records, error) {
	svc, err := s.c.deps.Kube.CoreV1().Services(s.w.svc.Namespace).Get(ctx, s.w.svc.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return annotation.Records{}, err
	case svc.UID != s.w.svc.UID:
		return annotation.Records{}, fmt.Errorf("service %s/%s is not the one it was", svc.Namespace, svc.Name)
	case svc.DeletionTimestamp != nil:
		return annotation.Records{}, fmt.Errorf("service %s/%s is being deleted", svc.Namespace, svc.Name)
	}
	records, err := annotation.ParseRecords(svc.Annotations)
	return records.Trusted(), err
}

// Save patches the annotations. A Service that is gone is no error: its cleaning goes on without records.
func (s *recordStore) Save(ctx context.Context, r annotation.Records) error {
	if !wants(s.w.svc) && !s.c.exists(s.w.key) {
		return nil
	}
	annotations := map[string]any{}
	for name, value := range r.Values() {
		if annotations[name] = value; value == "" {
			annotations[name] = nil
		}
	}
	err := s.c.patch(ctx, s.w, types.MergePatchType, map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if apierrors.IsNotFound(err) && (r.Empty() || !wants(s.w.svc)) {
		return nil
	}
	return err
}
