// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// ConditionReady is the condition of a Service that reports whether its load balancer is reconciled, and why not.
const ConditionReady = "csccm.io/LoadBalancerReady"

// ConditionAddress is the condition that has the address in its message, for a Service whose status shows a hostname.
const ConditionAddress = "csccm.io/LoadBalancerAddress"

// ConditionUntagged is the condition of a Service that lacks tags in CloudStack because the role refused them. The
// controller tries again in each drift round.
const ConditionUntagged = "csccm.io/LoadBalancerUntagged"

// maxConditionMessage is the API server's limit for a condition's message.
const maxConditionMessage = 32768

// patch patches a Service, and makes the result its newest version. The UID in the patch protects another Service of
// the same name. It is an error if the Service no longer exists.
func (c *Controller) patch(ctx context.Context, w *work, change any, subresources ...string) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}

	after, err := c.Kube.CoreV1().Services(w.latest.Namespace).Patch(ctx, w.latest.Name,
		types.StrategicMergePatchType, text, metav1.PatchOptions{}, subresources...)
	if err == nil {
		c.wrote(w.key, after)
		w.latest = after
	}
	return err
}

// addFinalizer adds the finalizer to the Service, if it does not have it.
func (c *Controller) addFinalizer(ctx context.Context, w *work) error {
	if servicehelpers.HasLBFinalizer(w.latest) {
		return nil
	}
	return c.change(ctx, w, func(svc *corev1.Service) {
		svc.Finalizers = append(svc.Finalizers, servicehelpers.LoadBalancerCleanupFinalizer)
	})
}

// ownConditions are the conditions that the controller writes.
var ownConditions = []string{
	ConditionReady, corev1.LoadBalancerPortsError, ConditionAddress, ConditionClass, ConditionUntagged,
}

// release removes from a Service what the controller has added. The records are removed together with the finalizer:
// until then, a new process needs them to see what is left to do. The patch names the records, because a difference
// that removes the last annotation would remove all that others have added since. If another controller serves the
// Service by now, its finalizer and status stay.
func (c *Controller) release(ctx context.Context, w *work) error {
	metadata := map[string]any{"uid": w.latest.UID}
	if hasRecords(w.latest) {
		metadata["annotations"] = map[string]any{annotation.Addresses: nil, annotation.Allocation: nil}
	}
	if servicehelpers.HasLBFinalizer(w.latest) && !w.servedByOthers() {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{servicehelpers.LoadBalancerCleanupFinalizer}
	}

	err := c.change(ctx, w, func(svc *corev1.Service) {
		if !w.servedByOthers() {
			svc.Status.LoadBalancer.Ingress = nil
		}
		if Ready(svc).Type != "" {
			svc.Status.Conditions = slices.DeleteFunc(svc.Status.Conditions,
				func(own metav1.Condition) bool { return slices.Contains(ownConditions, own.Type) })
		}
	}, "status")
	if err == nil && len(metadata) > 1 {
		err = c.patch(ctx, w, map[string]any{"metadata": metadata})
	}

	if apierrors.IsNotFound(err) ||
		apierrors.IsConflict(err) && c.isDeleted(ctx, w.latest.Namespace, w.latest.Name, w.latest.UID) {
		return nil
	}
	return err
}

// isDeleted asks the API server whether a Service no longer exists.
func (c *Controller) isDeleted(ctx context.Context, namespace, name string, uid types.UID) bool {
	svc, err := c.get(ctx, namespace, name)
	return apierrors.IsNotFound(err) || err == nil && svc.UID != uid
}

// get reads a Service from the API server.
func (c *Controller) get(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	return c.Kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
}

// statusOf returns the status of the Service. A hostname replaces the address, so that kube-proxy does not bypass the
// load balancer. With the PROXY protocol or TLS on the router, the ipMode Proxy has the same effect for the address.
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

// change changes a copy of the Service, and patches the difference. It does not compare the spec, which the owner may
// make large and the controller never changes.
func (c *Controller) change(ctx context.Context, w *work, do func(*corev1.Service), subresources ...string) error {
	before := *w.latest
	before.Spec = corev1.ServiceSpec{}
	after := before.DeepCopy()
	do(after)

	if c.applies() { // set it before the informer shows the change
		c.with(w.key, func(s *state) { s.wrote = &after.Status.LoadBalancer })
	}
	if apiequality.Semantic.DeepEqual(&before, after) {
		return nil
	}

	before.UID = "" // so that the patch contains the UID
	was, err := json.Marshal(&before)
	is, ierr := json.Marshal(after)
	text, perr := strategicpatch.CreateTwoWayMergePatch(was, is, &before)
	if err := errors.Join(err, ierr, perr); err != nil {
		return err
	}
	return c.patch(ctx, w, json.RawMessage(text), subresources...)
}

// writeStatus writes the status and conditions of a sync that ended with failure, if they have changed. A nil status
// leaves the status unchanged.
func (c *Controller) writeStatus(
	ctx context.Context, w *work, status *corev1.LoadBalancerStatus, failure error,
) error {
	if errors.Is(failure, context.Canceled) {
		return nil
	}

	if status != nil && w.state.overwritten(w.latest) {
		// The informer's cache has no managed fields. An error returns an empty Service.
		svc, _ := c.get(ctx, w.latest.Namespace, w.latest.Name)
		w.events.warn(StatusChanged, fmt.Sprintf(
			"%s has changed the status to show %q; this controller changes it back, at once or in the next drift "+
				"round; stop the other controller (csccm doctor --only CCM-003 finds it), or exclude this "+
				"controller's Services from it",
			cmp.Or(loadbalancer.StatusWriter(svc), "somebody else"), w.id.StatusIPs))
	}

	refusal := plan.RefusalOf(failure)
	err := c.change(ctx, w, func(svc *corev1.Service) {
		for _, cond := range conditions(w, failure) {
			if cond.Type != ConditionReady &&
				cond.Status == metav1.ConditionFalse &&
				conditionOf(svc, cond.Type).Type == "" {
				continue // a false condition is added only if the Service had it before
			}
			cond.LastTransitionTime = metav1.NewTime(c.Clock.Now())
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

// maxRepairs limits how often, between two drift rounds, the controller immediately restores a status that somebody
// else has changed. After that, only drift rounds restore it. Otherwise two controllers would overwrite each other
// forever.
const maxRepairs = 3

// overwritten reports whether another client has changed the status that this process has written.
func (s *state) overwritten(svc *corev1.Service) bool {
	return s.wrote != nil && !apiequality.Semantic.DeepEqual(s.wrote, &svc.Status.LoadBalancer)
}

// conditions returns the conditions of a Service after a sync that ended with err.
func conditions(w *work, err error) []metav1.Condition {
	unserved := cmp.Or(w.unserved, w.Unserved) // why the Service gets no traffic although the sync succeeded
	reason, text := Reconciled, ""
	refusal := plan.RefusalOf(err)
	switch {
	case refusal != nil:
		reason, text = refusal.Reason, refusal.Error() // without the wrapped error
	case plan.WaitOf(err) != nil:
		reason, text = Waiting, err.Error()
	case err != nil:
		reason, text = CloudStackError, err.Error()
	case unserved != nil:
		reason, text = unserved.Reason, unserved.Message
	}

	text = text[:min(len(text), maxConditionMessage)]
	ready := metav1.Condition{
		Type: ConditionReady, Status: metav1.ConditionTrue, Reason: string(reason), Message: text,
	}
	if reason != Reconciled {
		ready.Status = metav1.ConditionFalse
	}

	ports := naming(corev1.LoadBalancerPortsError, text, refusal != nil && refusal.Port != 0)
	switch {
	case ports.Status == metav1.ConditionFalse:
	case reason == plan.ReasonMixedProtocols:
		ports.Reason = corev1.LoadBalancerPortsErrorReason
	default:
		ports.Reason = string(reason)
	}

	class := ClassOf(w.svc)
	all := []metav1.Condition{
		ready,
		ports,
		naming(ConditionClass, class, class != ""),
		naming(ConditionUntagged, "the role may not tag (createTags)", w.Untagged),
	}
	if err == nil && w.IP != "" {
		all = append(all, naming(ConditionAddress, w.IP, w.spec.Hostname != ""))
	}
	return all
}

// naming returns a condition whose message is a name, and which is true while the name is not empty. The controller
// relies on conditions because owners can forge records if no admission policy protects them, but not the status.
func naming(condition, name string, so bool) metav1.Condition {
	c := metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: string(Reconciled)}
	if so {
		c.Status, c.Message = metav1.ConditionTrue, name
	}
	return c
}

// errChanged means that the Service was changed during its sync, and has to be synced again.
var errChanged = errors.New("the Service was changed meanwhile")

// records returns the function that saves records during a sync, as annotations. The records of a Service that wants no
// load balancer remain until all its objects in CloudStack are deleted.
func (c *Controller) records(w *work) apply.Store {
	return func(ctx context.Context, r annotation.Records, unchanged bool) error {
		if w.absent {
			return nil
		}

		// The patch names what it removes: a difference that removes the last annotation removes all that others have
		// added meanwhile.
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

		err := c.patch(ctx, w, map[string]any{"metadata": metadata})
		switch {
		case apierrors.IsNotFound(err) && r.Empty():
			return nil
		case apierrors.IsConflict(err) && unchanged:
			return c.reread(ctx, w)
		}

		return err
	}
}

// reread makes the version in the API server the newest one, and returns errChanged.
func (c *Controller) reread(ctx context.Context, w *work) error {
	svc, err := c.get(ctx, w.latest.Namespace, w.latest.Name)
	if err == nil && svc.UID == w.latest.UID {
		c.wrote(w.key, svc)
	}
	return cmp.Or(err, errChanged)
}
