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
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// ConditionReady on a Service reports whether its load balancer is reconciled, and if not, why.
const ConditionReady = "csccm.io/LoadBalancerReady"

// ConditionAddress on a Service whose status shows a hostname has the address in its message.
const ConditionAddress = "csccm.io/LoadBalancerAddress"

// maxConditionMessage is the API server's limit for a condition's message.
const maxConditionMessage = 32768

// patch merges into a Service, and makes the result the newest version of it. The UID in the patch keeps another
// Service of the same name from being changed. A Service that is gone is an error.
func (c *Controller) patch(
	ctx context.Context, w *work, kind types.PatchType, change any, subresources ...string,
) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	after, err := c.Kube.CoreV1().Services(w.latest.Namespace).Patch(ctx, w.latest.Name, kind, text,
		metav1.PatchOptions{}, subresources...)
	if err == nil {
		c.wrote(w.key, after)
		w.latest = after
	}
	return err
}

func (c *Controller) addFinalizer(ctx context.Context, w *work) error {
	if servicehelpers.HasLBFinalizer(w.latest) {
		return nil
	}
	return c.change(ctx, w, func(svc *corev1.Service) {
		svc.Finalizers = append(svc.Finalizers, servicehelpers.LoadBalancerCleanupFinalizer)
	})
}

// release takes from a Service what the controller has given to it. The records go with the finalizer: until then a
// process that knows nothing finds by them what is left to do. The patches name what goes: a difference of two versions
// would take what others have added since. The finalizer and the status of a Service that another controller serves by
// now are that one's.
func (c *Controller) release(ctx context.Context, w *work) error {
	metadata := map[string]any{"uid": w.latest.UID}
	if hasRecords(w.latest) {
		metadata["annotations"] = map[string]any{annotation.Addresses: nil, annotation.Allocation: nil}
	}
	if servicehelpers.HasLBFinalizer(w.latest) && !w.servedByOthers() {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{servicehelpers.LoadBalancerCleanupFinalizer}
	}
	status := map[string]any{}
	if len(w.latest.Status.LoadBalancer.Ingress) > 0 && !w.servedByOthers() {
		status["loadBalancer"] = map[string]any{"ingress": nil}
	}
	if Ready(w.latest).Type != "" {
		gone := func(kind string) map[string]string { return map[string]string{"$patch": "delete", "type": kind} }
		status["conditions"] = []map[string]string{
			gone(ConditionReady), gone(corev1.LoadBalancerPortsError), gone(ConditionAddress), gone(ConditionClass)}
	}

	var err error
	if len(status) > 0 {
		err = c.patch(ctx, w, types.StrategicMergePatchType,
			map[string]any{"metadata": map[string]any{"uid": w.latest.UID}, "status": status}, "status")
	}
	if err == nil && len(metadata) > 1 {
		err = c.patch(ctx, w, types.StrategicMergePatchType, map[string]any{"metadata": metadata})
	}
	if apierrors.IsNotFound(err) ||
		apierrors.IsConflict(err) && c.gone(ctx, w.latest.Namespace, w.latest.Name, w.latest.UID) {
		return nil
	}
	return err
}

// gone asks the API server itself whether a Service does not exist.
func (c *Controller) gone(ctx context.Context, namespace, name string, uid types.UID) bool {
	svc, err := c.Kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && svc.UID != uid
}

// statusOf is what the Service shows. A hostname takes the place of the address, so that kube-proxy does not take a
// short cut. With the PROXY protocol or TLS at the router the mode Proxy says the same of the address.
func statusOf(w *work) *corev1.LoadBalancerStatus {
	ingress := corev1.LoadBalancerIngress{Hostname: w.spec.Hostname}
	if w.spec.Hostname == "" {
		if w.IP == "" {
			return &corev1.LoadBalancerStatus{}
		}
		mode := corev1.LoadBalancerIPModeVIP
		if w.spec.ProxyProtocol.Any() || w.spec.SSLPorts.Any() {
			mode = corev1.LoadBalancerIPModeProxy
		}
		ingress.IP, ingress.IPMode = w.IP, &mode
	}
	for _, p := range w.svc.Spec.Ports {
		ingress.Ports = append(ingress.Ports,
			corev1.PortStatus{Port: p.Port, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP)})
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{ingress}}
}

// change changes a copy of the Service, and patches what differs. The spec, which the owner may make large, is not the
// controller's to change, and not compared.
func (c *Controller) change(ctx context.Context, w *work, do func(*corev1.Service), subresources ...string) error {
	before := *w.latest
	before.Spec = corev1.ServiceSpec{}
	after := before.DeepCopy()
	do(after)

	if c.applies() { // before the informer shows it
		c.with(w.key, func(s *state) { s.wrote = &after.Status.LoadBalancer })
	}
	if apiequality.Semantic.DeepEqual(&before, after) {
		return nil
	}

	before.UID = "" // the patch has it then
	was, err := json.Marshal(&before)
	is, ierr := json.Marshal(after)
	text, perr := strategicpatch.CreateTwoWayMergePatch(was, is, &before)
	if err := errors.Join(err, ierr, perr); err != nil {
		return err
	}
	return c.patch(ctx, w, types.StrategicMergePatchType, json.RawMessage(text), subresources...)
}

// writeStatus writes what a sync that ended with err shows on the Service, if that is new. A nil status stays as it is.
func (c *Controller) writeStatus(ctx context.Context, w *work, status *corev1.LoadBalancerStatus, err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}

	if status != nil && w.state.overwritten(w.latest) {
		w.events.warn(StatusChanged, fmt.Sprintf(
			"somebody else has changed the status to show %q, and it is changed back, at once or with a drift round; "+
				"stop that controller, which csccm doctor --only CCM-003 names, or keep it from Services "+
				"without a class", w.statusIPs))
	}

	refusal := plan.RefusalOf(err)
	class := ClassOf(w.svc)
	all := append(conditions(cmp.Or(w.unserved, w.Unserved), err), naming(ConditionClass, class, class != ""))
	if err == nil && w.IP != "" {
		all = append(all, naming(ConditionAddress, w.IP, w.spec.Hostname != ""))
	}
	err = c.change(ctx, w, func(svc *corev1.Service) {
		for _, cond := range all {
			if cond.Type != ConditionReady &&
				cond.Status == metav1.ConditionFalse &&
				conditionOf(svc, cond.Type).Type == "" {
				continue // it says nothing until it was true once
			}
			cond.LastTransitionTime = metav1.Time{Time: c.Clock.Now()}
			apimeta.SetStatusCondition(&svc.Status.Conditions, cond)
		}
		if status != nil {
			svc.Status.LoadBalancer = *status
		}
		for _, in := range svc.Status.LoadBalancer.Ingress {
			for i := range in.Ports {
				if p := &in.Ports[i]; refusal != nil && int(p.Port) == refusal.Port {
					p.Error = new(string(refusal.Reason))
				}
			}
		}
	}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// maxRepairs is how often between two drift rounds a status that somebody else has changed is changed back as soon as
// that is seen. Beyond it the drift rounds do so, or two controllers would overwrite each other for ever.
const maxRepairs = 3

// overwritten reports whether somebody else has changed the status that this process has written.
func (s *state) overwritten(svc *corev1.Service) bool {
	return s.wrote != nil && !apiequality.Semantic.DeepEqual(s.wrote, &svc.Status.LoadBalancer)
}

// conditions are what a sync that ended with err shows on the Service. unserved says why nobody is served although it
// succeeded; nil when there is no reason.
func conditions(unserved *plan.Notice, err error) []metav1.Condition {
	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: string(Reconciled)}
	ports := naming(corev1.LoadBalancerPortsError, "", false)
	fails := func(reason plan.Reason, text string) {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(reason), text[:min(len(text),
			maxConditionMessage)]
	}

	refusal := plan.RefusalOf(err)
	switch {
	case refusal != nil:
		fails(refusal.Reason, refusal.Error()) // without what led to it
	case plan.WaitOf(err) != nil:
		fails(Waiting, err.Error())
	case err != nil:
		fails(CloudStackError, err.Error())
	case unserved != nil:
		fails(unserved.Reason, unserved.Message)
	}
	if refusal != nil && refusal.Port != 0 {
		ports.Status, ports.Reason, ports.Message = metav1.ConditionTrue, ready.Reason, ready.Message
		if refusal.Reason == plan.ReasonMixedProtocols {
			ports.Reason = corev1.LoadBalancerPortsErrorReason
		}
	}
	return []metav1.Condition{ready, ports}
}

// naming is a condition that names something while it is so. The controller has no other word of its own for it:
// records may be forged where no policy protects them, the status may not.
func naming(condition, name string, so bool) metav1.Condition {
	c := metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: string(Reconciled)}
	if so {
		c.Status, c.Message = metav1.ConditionTrue, name
	}
	return c
}

// errChanged means that the Service was changed while it was synced: it is synced again.
var errChanged = errors.New("the Service was changed meanwhile")

// records returns how a sync saves records, which is a patch of annotations. Those of a Service that wants no load
// balancer stay until nothing is left of it.
func (c *Controller) records(w *work) apply.Store {
	return func(ctx context.Context, r annotation.Records, unchanged bool) error {
		if w.absent {
			return nil
		}

		annotations := map[string]any{}
		for name, value := range r.Values() {
			if annotations[name] = value; value == "" {
				annotations[name] = nil
			}
		}

		metadata := map[string]any{"annotations": annotations, "uid": w.latest.UID}
		if unchanged {
			metadata["resourceVersion"] = w.latest.ResourceVersion
		}

		err := c.patch(ctx, w, types.MergePatchType, map[string]any{"metadata": metadata})
		switch {
		case apierrors.IsNotFound(err) && r.Empty():
			return nil
		case apierrors.IsConflict(err) && unchanged:
			return c.reread(ctx, w)
		}

		return err
	}
}

// reread makes the version that the API server has the newest one, and returns errChanged.
func (c *Controller) reread(ctx context.Context, w *work) error {
	svc, err := c.Kube.CoreV1().Services(w.latest.Namespace).Get(ctx, w.latest.Name, metav1.GetOptions{})
	if err == nil && svc.UID == w.latest.UID {
		c.wrote(w.key, svc)
	}
	return cmp.Or(err, errChanged)
}
