// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/backoff"
	"github.com/csccm/csccm/pkg/provider/event"
	"github.com/csccm/csccm/pkg/tenancy"
)

// work is a Service that is worked on: what is asked for, and what follows from that alone.
type work struct {
	svc     *corev1.Service
	nodes   []*corev1.Node // those that the framework found eligible
	id      plan.Service
	spec    annotation.Spec
	invalid error // why annotations could not be read
	// forwards is set when ports may be port forwardings: whether they are depends on the network, too.
	forwards bool
	events   event.Service
}

func (lb *loadBalancer) workOn(svc *corev1.Service, nodes []*corev1.Node) *work {
	w := &work{svc: svc, nodes: nodes, id: loadbalancer.ServiceOf(svc), events: event.Service{Recorder: lb.deps.Recorder, Object: svc}}
	w.id.Seen = apimeta.FindStatusCondition(svc.Status.Conditions, ConditionReady) != nil
	w.spec, w.invalid = annotation.Parse(svc)
	w.spec.Mode = cmp.Or(w.spec.Mode, lb.deps.Mode)
	w.forwards = w.invalid == nil && plan.Facts{Service: w.id, Spec: w.spec}.Forwards()
	return w
}

// attempt is what the backoff knows a sync by.
func (lb *loadBalancer) attempt(w *work) backoff.Attempt {
	return backoff.AttemptOf(w.svc, lb.nodes.key(w.nodes, lb.unfit(w, w.nodes)))
}

// upToDate reports whether the Service was last brought to its desired state with the same backends.
func (lb *loadBalancer) upToDate(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node) (same bool) {
	w := lb.workOn(svc, nodes)
	if w.invalid != nil {
		return false
	}
	b, err := lb.serving(ctx, w)
	if err != nil {
		return false
	}
	lb.with(svc.UID, func(s *serviceState) { same = s.synced != nil && *s.synced == b.key })
	return same
}

// reconcile is the last step of a sync.
type reconcile func(context.Context, loadbalancer.Request) (loadbalancer.Result, error)

// ensure is one sync, and shows its outcome on the Service. It does
// nothing while the Service waits after a failure that would only repeat itself.
func (lb *loadBalancer) ensure(ctx context.Context, svc *corev1.Service, nodes []*corev1.Node, do reconcile) (*corev1.LoadBalancerStatus, error) {
	w := lb.workOn(lb.deps.Records.restore(svc), nodes)
	lb.with(svc.UID, func(s *serviceState) { s.forwards = w.forwards })
	lb.heartbeats.Use(string(svc.UID), w.forwards)
	attempt := lb.attempt(w)
	if wait, err := lb.backoff.Held(attempt); wait > 0 {
		return nil, backoff.RetryAfter(err, wait)
	}
	out, err := lb.sync(ctx, w, do)
	lb.with(svc.UID, func(s *serviceState) { s.settled = err == nil })
	err = projectRefusal(w.svc, err)
	lb.showCondition(ctx, w.svc, out.unserved, err)
	return out.status, lb.ended(w, attempt, err, out.did)
}

// outcome is what came of a sync.
type outcome struct {
	status   *corev1.LoadBalancerStatus // nil after an error
	unserved *plan.Notice               // why nobody is served although the sync succeeded
	did      backoff.Work
}

// sync is one attempt.
func (lb *loadBalancer) sync(ctx context.Context, w *work, do reconcile) (out outcome, _ error) {
	lb.with(w.svc.UID, func(s *serviceState) { s.synced = nil })
	// What the Service alone decides is decided before anything is read.
	req, err := lb.accept(ctx, w)
	if err != nil {
		return out, err
	}
	b, err := lb.backends(ctx, w)
	if err != nil {
		return out, err
	}
	var unserved *plan.Notice
	if b.none != "" {
		unserved = &plan.Notice{Warning: true, Reason: plan.ReasonNoBackends, Message: b.none + "; the rules have no members, and nobody is served"}
		w.events.Notice(*unserved)
	}
	req.Members, req.Reach, req.Unfit = b.members, b.reach, texts(b.unfit)
	req.Refresh = func(ctx context.Context) ([]plan.Member, []plan.Member, error) {
		err := lb.find(ctx, w, b, event.Service{}, freshVMAge)
		return b.members, b.reach, err
	}
	result, err := do(ctx, req)
	out.did = progress(result)
	lb.countMoves(result, err, b)
	lb.with(w.svc.UID, func(s *serviceState) {
		s.unfit = result.Unserved != nil && result.Unserved.Reason == plan.ReasonNodesUnfit
		s.doubtful = cloudstack.IsKind(err, cloudstack.KindJobFailed) || cloudstack.IsNotFound(err)
		if err == nil && b.complete {
			key := b.key // of its own: a pointer into b would keep all members
			s.synced = &key
		}
	})
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok && refusal.Reason == plan.ReasonNoNodes {
		err = &plan.RefusalError{Reason: refusal.Reason, Message: lb.noneEligible() + ", so that the network of the address is not known", Remedy: refusal.Remedy}
	}
	if err != nil {
		return out, err
	}
	if out.unserved = unserved; unserved == nil {
		out.unserved = result.Unserved
	}
	if lb.deps.Policy == plan.PolicyDryRun {
		if len(result.Plan) > 0 {
			w.events.Notice(plan.Notice{Reason: event.DryRun, Message: "dry run, not done: " + plan.Text(result.Plan)})
		}
		out.status = w.svc.Status.LoadBalancer.DeepCopy()
		return out, nil
	}
	out.status = status(w, result.IP)
	return out, nil
}

// accept returns what is asked for, or a refusal for what is wrong with the Service wherever its nodes are.
func (lb *loadBalancer) accept(ctx context.Context, w *work) (req loadbalancer.Request, _ error) {
	if w.invalid != nil {
		return req, &plan.RefusalError{Reason: plan.ReasonInvalidAnnotation, Message: w.invalid.Error()}
	}
	for _, text := range w.spec.Warnings {
		w.events.Warn(event.IgnoredSetting, text)
	}
	ns, err := lb.namespace(ctx, w.svc.Namespace)
	if err != nil {
		return req, err
	}
	if err := lb.allowed(ns, w.svc); err != nil {
		return req, err
	}
	if refusal := lb.reconciler.CheckService(w.id, w.spec); refusal != nil {
		return req, refusal
	}
	req = lb.request(w, ns)
	if w.spec.Project != "" || !w.spec.Records.Empty() {
		err = lb.reconciler.CheckProject(ctx, req)
	}
	return req, err
}

func progress(r loadbalancer.Result) backoff.Work {
	return backoff.Work{Planned: len(r.Plan), Done: r.Done}
}

// ended makes the error of an attempt the framework's, with an Event where the framework's own says too little.
func (lb *loadBalancer) ended(w *work, a backoff.Attempt, err error, did backoff.Work) error {
	if err == nil {
		if next, wait, ok := lb.backoff.Succeeded(a, did); ok {
			lb.wakeups.AddAfter(next, wait)
		}
		return nil
	}
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok {
		w.events.Warn(refusal.Reason, refusal.Error())
	}
	if errors.Is(err, context.Canceled) {
		return err // the process ends
	}
	wait := lb.backoff.Failed(a, err, did)
	if cloudstack.IsKind(err, cloudstack.KindTransient) {
		// The framework only warns of an error that says when to try again; csccm doctor looks for errors.
		klog.ErrorS(err, "A Service's load balancer could not be synced; it is tried again", "service", klog.KObj(w.svc), "in", wait.Round(time.Second))
	}
	return backoff.RetryAfter(err, wait)
}

// requestOf is request for a Service that need not be accepted.
func (lb *loadBalancer) requestOf(ctx context.Context, w *work) (loadbalancer.Request, error) {
	ns, err := lb.namespace(ctx, w.svc.Namespace)
	return lb.request(w, ns), err
}

func (lb *loadBalancer) request(w *work, ns tenancy.Namespace) loadbalancer.Request {
	return loadbalancer.Request{
		Service: w.id,
		Spec:    w.spec,
		Grants:  grantsOf(lb.deps.Tenancy, ns, w.spec.Address),
		Records: &recordStore{kube: lb.deps.Kube, namespace: w.svc.Namespace, name: w.svc.Name, uid: w.svc.UID},
		Notify:  w.events.Notice,
	}
}

// status is what the Service shows. A hostname stands in place of the address,
// so that kube-proxy does not take a short cut. With the PROXY protocol the
// mode Proxy says the same of the address.
func status(w *work, ip string) *corev1.LoadBalancerStatus {
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

// projectRefusal turns the failure to use the project that a Service names into a refusal that names the annotation. The
// names of other projects are the operator's business. Other errors it returns unchanged.
func projectRefusal(svc *corev1.Service, err error) error {
	project := strings.TrimSpace(svc.Annotations[annotation.Project])
	if project == "" || !unknownProject(err) {
		return err
	}
	return &plan.RefusalError{
		Reason:  plan.ReasonNoSuchProject,
		Message: fmt.Sprintf("annotation %s names project %q, which does not exist or does not have the controller's user as a member", annotation.Project, project),
		Remedy:  "correct the annotation, or have the user added to the project in CloudStack; the Service is tried again",
	}
}

// unknownProject reports whether CloudStack does not know a project, or does not let its caller in.
func unknownProject(err error) bool {
	if p, ok := errors.AsType[*inventory.ProjectError](err); ok {
		return p.Err == nil
	}
	e, ok := errors.AsType[*cloudstack.Error](err)
	if !ok {
		return false
	}
	switch e.Kind {
	case cloudstack.KindNotFound:
		return strings.Contains(e.Text, "parameter projectid") || strings.Contains(e.Text, "find project by id")
	case cloudstack.KindNotPermitted:
		return strings.Contains(e.Text, "in project [")
	default:
		return false
	}
}
