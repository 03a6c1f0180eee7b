// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Sync brings one Service to its desired state, unless it waits after a failure. It returns when the Service is looked at
// again at the latest (zero: when something changes), and the error of the attempt, which has been reported. One caller at a
// time works on a Service; the queue sees to it.
func (c *Controller) Sync(ctx context.Context, k Key) (again time.Duration, err error) {
	s := c.stateOf(k)
	c.mu.Lock()
	svc, gone, orphans := s.svc, s.gone, s.orphans
	c.mu.Unlock()
	w := &work{key: k, state: s, svc: svc, events: events{c.deps.Recorder, svc}}
	switch {
	case len(orphans) > 0 && (svc == nil || gone):
		return 0, c.cleanOrphans(ctx, k, orphans)
	case svc == nil:
	case gone:
		c.book.leave(k.UID) // a write that was under way may have brought it back
		w.svc = svc.DeepCopy()
		w.svc.DeletionTimestamp = new(metav1.Now()) // one that was deleted without its finalizer has none
		return c.attempt(ctx, w, c.remove)
	case wants(svc):
		return c.attempt(ctx, w, c.ensure)
	case leaves(svc), c.abandoned(svc):
		return c.attempt(ctx, w, c.remove)
	}
	c.forget(k)
	return 0, nil
}

// work is a Service that is worked on: the object, and what follows from it alone.
type work struct {
	key     Key
	state   *state
	svc     *corev1.Service // the newest version; changed as it is written
	nodes   []*corev1.Node  // those that are eligible
	lacks   bool            // a node has no VM
	id      plan.Service
	spec    annotation.Spec
	invalid error // why annotations could not be read
	// forwards is set when ports may be port forwardings: whether they are depends on the network, too.
	forwards bool
	events   events
	began    time.Time // of the attempt
}

// describe reads the Service.
func (c *Controller) describe(w *work) {
	w.id = loadbalancer.ServiceOf(w.svc)
	w.id.Seen = apimeta.FindStatusCondition(w.svc.Status.Conditions, ConditionReady) != nil
	w.spec, w.invalid = annotation.Parse(w.svc)
	w.spec.Mode, w.spec.Records = cmp.Or(w.spec.Mode, c.deps.Mode), w.spec.Records.Trusted()
	w.forwards = w.invalid == nil && plan.Facts{Service: w.id, Spec: w.spec}.Forwards()
}

// outcome is what a sync achieved.
type outcome struct {
	loadbalancer.Result
	status *corev1.LoadBalancerStatus // nil after an error
}

// attempt makes one attempt, and notes how it ended.
func (c *Controller) attempt(ctx context.Context, w *work, do func(context.Context, *work) (outcome, error)) (again time.Duration, err error) {
	c.describe(w)
	a := attempt{fingerprint: "delete"}
	if wants(w.svc) {
		all, err := c.deps.Nodes()
		if err != nil {
			return time.Second, err
		}
		w.nodes = Eligible(all)
		chosen := selected(w.spec, w.nodes)
		a = attempt{
			fingerprint: annotation.Fingerprint(w.svc), nodes: c.members.Key(chosen, c.unhealthy(w, chosen)), project: w.spec.Project,
			serves: w.svc.Annotations[annotation.Addresses] != "" || len(w.svc.Status.LoadBalancer.Ingress) > 0,
		}
	}
	var held time.Duration
	c.with(w.key, func(s *state) {
		s.forwards = w.forwards && wants(w.svc)
		if held = s.retry.held(a, c.deps.Clock.Now()); held > 0 {
			err = s.retry.err
		}
	})
	c.heartbeats.Use(string(w.key.UID), w.forwards && wants(w.svc))
	if held > 0 {
		return held, err
	}
	w.began = c.deps.Clock.Now()
	out, err := do(ctx, w)
	c.book.settle(w.key.UID)
	switch {
	case errors.Is(err, context.Canceled):
		return 0, err // the process ends
	case err != nil:
		return c.failed(w, a, out, err), err
	case wants(w.svc):
		c.succeeded(w, out)
	}
	return 0, nil
}

// ensure brings a Service that wants a load balancer to its desired state, and writes its status.
func (c *Controller) ensure(ctx context.Context, w *work) (out outcome, err error) {
	if err := c.addFinalizer(ctx, w); err != nil {
		return out, fmt.Errorf("add the finalizer to the Service: %w", err)
	}
	asked, first, lacked := annotation.Fingerprint(w.svc), false, false
	c.with(w.key, func(s *state) {
		first, s.asked, s.touched = s.asked != asked, asked, true
		lacked = s.served && s.lacks // a warning has named the node without a VM
	})
	if first {
		w.events.note(EnsuringLoadBalancer, "Ensuring load balancer")
	}
	out, err = c.reconcile(ctx, w, c.reconciler.Reconcile)
	if _, refused := errors.AsType[*plan.RefusalError](err); refused && first {
		if gerr := c.reconciler.GiveUp(ctx, c.request(w, tenancy.Namespace{})); gerr != nil {
			c.with(w.key, func(s *state) { s.asked = "" }) // again with the next attempt
			err = errors.Join(err, gerr)
		}
	}
	if serr := c.writeStatus(ctx, w, out, err); err == nil && serr != nil {
		err = fmt.Errorf("change the status of the Service: %w", serr)
	}
	if err == nil {
		switch {
		case first:
			w.events.note(EnsuredLoadBalancer, "Ensured load balancer")
		case (out.Done > 0 || lacked && !w.lacks) && len(w.nodes) > 0:
			w.events.note(UpdatedLoadBalancer, "Updated load balancer with new hosts")
		}
	}
	return out, err
}

// reconcile is the last step of a sync.
type reconcile func(context.Context, loadbalancer.Request) (loadbalancer.Result, error)

// reconcile decides what the Service alone and its nodes decide, and hands the rest to the load balancers.
func (c *Controller) reconcile(ctx context.Context, w *work, last reconcile) (out outcome, err error) {
	defer func() { err = projectRefusal(w.svc, err) }()
	req, err := c.accept(ctx, w)
	if err != nil {
		return out, err
	}
	b, err := c.backends(ctx, w)
	if err != nil {
		return out, err
	}
	var unserved *plan.Notice
	if b.none != "" {
		unserved = &plan.Notice{Warning: true, Reason: plan.ReasonNoBackends, Message: b.none + "; the rules have no members, and nobody is served"}
		w.events.notice(*unserved)
	}
	req.Members, req.Reach, req.Leaving, req.Ineligible = b.members, b.reach, b.leaving, texts(b.unhealthy)
	req.Refresh = func(ctx context.Context) ([]plan.Member, []plan.Member, error) {
		err := c.find(ctx, w, b, events{}, freshVMAge)
		return b.members, b.reach, err
	}
	out.Result, err = last(ctx, req)
	c.countMoves(out.Result, err, b)
	c.with(w.key, func(s *state) {
		s.unhealthy = out.Unserved != nil && out.Unserved.Reason == plan.ReasonNoHealthyNode
		s.doubtful = cloudstack.IsKind(err, cloudstack.KindJobFailed) || cloudstack.IsNotFound(err)
	})
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok && refusal.Reason == plan.ReasonNoNodes {
		err = &plan.RefusalError{Reason: refusal.Reason, Message: c.noneEligible() + ", so that the network of the address is not known", Remedy: refusal.Remedy}
	}
	if err != nil {
		return out, err
	}
	out.Unserved = cmp.Or(unserved, out.Unserved)
	out.status = statusOf(w, out.IP)
	if c.deps.Policy == plan.PolicyDryRun {
		out.status = w.svc.Status.LoadBalancer.DeepCopy()
		if len(out.Plan) > 0 {
			w.events.note(DryRun, "dry run, not done: "+plan.Text(out.Plan))
		}
	}
	return out, nil
}

// accept returns what is asked for, or a refusal for what is wrong with the Service wherever its nodes are.
func (c *Controller) accept(ctx context.Context, w *work) (req loadbalancer.Request, _ error) {
	if w.invalid != nil {
		return req, &plan.RefusalError{Reason: plan.ReasonInvalidAnnotation, Message: w.invalid.Error()}
	}
	for _, text := range w.spec.Warnings {
		w.events.warn(IgnoredSetting, text)
	}
	ns, err := c.namespace(ctx, w.svc.Namespace)
	if err != nil {
		return req, err
	}
	if denial := c.deps.Tenancy.Check(ns, w.svc); denial != nil {
		return req, &plan.RefusalError{Reason: plan.ReasonNotAllowed, Message: denial.Message, Remedy: denial.Remedy}
	}
	if refusal := plan.CheckService(w.id, w.spec); refusal != nil {
		return req, refusal
	}
	req = c.request(w, ns)
	if w.spec.Project != "" || !w.spec.Records.Empty() {
		err = c.reconciler.CheckProject(ctx, req)
	}
	return req, err
}

// remove removes everything of a Service that no longer wants a load balancer, and the finalizer.
func (c *Controller) remove(ctx context.Context, w *work) (out outcome, err error) {
	if w.state.touched || !w.spec.Records.Empty() || len(w.id.StatusIPs) > 0 {
		w.events.note(DeletingLoadBalancer, "Deleting load balancer")
	}
	if out, err = c.removal(ctx, w, c.reconciler.Reconcile); err != nil {
		return out, err
	}
	if err := c.release(ctx, w); err != nil {
		return out, fmt.Errorf("remove the finalizer of the Service: %w", err)
	}
	w.events.note(DeletedLoadBalancer, "Deleted load balancer")
	c.forget(w.key)
	c.freed() // its ports, and the address that it has shared, or that stays
	return out, nil
}

// removal is reconcile for a Service that no longer wants a load balancer.
func (c *Controller) removal(ctx context.Context, w *work, last reconcile) (out outcome, err error) {
	ns, err := c.namespace(ctx, w.svc.Namespace)
	if err != nil {
		return out, err
	}
	req := c.request(w, ns) // what cannot be parsed is deleted all the same
	req.Absent, req.Since = true, time.Time{}
	out.Result, err = last(ctx, req)
	return out, projectRefusal(w.svc, err)
}

// request is what the load balancers need to know of the Service itself.
func (c *Controller) request(w *work, ns tenancy.Namespace) loadbalancer.Request {
	req := loadbalancer.Request{
		Facts:   plan.Facts{Service: w.id, Spec: w.spec},
		Grants:  grantsOf(c.deps.Tenancy, ns, w.spec.Address),
		Records: &recordStore{c, w},
		Notify:  w.events.notice,
		Memory:  &w.state.memory,
	}
	c.with(w.key, func(s *state) { req.Since = s.since })
	return req
}

// succeeded notes that a Service is served. Ports that it gave up are free for others. If it has acquired the address that it
// names, others that name the address too can share it: their attempts to acquire it at the same time have failed.
func (c *Controller) succeeded(w *work, out outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := w.state.retry.next
	w.state.retry, w.state.served, w.state.lacks = retry{}, true, w.lacks
	if w.spec.Address != "" && out.Done > 0 || slices.ContainsFunc(out.Plan, func(s plan.Step) bool { return s.Kind == plan.DeleteRule || s.Kind == plan.DeleteForward }) {
		c.freedAt, next = c.deps.Clock.Now(), true
	}
	if next {
		c.tryNext()
	}
}

// failed notes a failed attempt, reports it, and returns when the next one is due.
func (c *Controller) failed(w *work, a attempt, out outcome, err error) time.Duration {
	c.mu.Lock()
	next := w.state.retry.next || w.began.Before(c.freedAt) // it may have looked before that became free
	w.state.served = false
	wait := w.state.retry.failed(a, err, out.Result, w.began, c.deps.Clock.Now())
	if shortage(err) { // for all that wait for an address in the project
		for _, s := range c.states {
			if s.retry.project == a.project && shortage(s.retry.err) && s.retry.began.Before(w.began) {
				s.retry.began = w.began
			}
		}
	}
	if next {
		c.tryNext()
		wait = max(0, w.state.retry.until.Sub(c.deps.Clock.Now()))
	}
	c.mu.Unlock()
	if refusal, ok := errors.AsType[*plan.RefusalError](err); ok {
		w.events.warn(refusal.Reason, refusal.Error())
	}
	doing := map[bool]string{true: "ensure", false: "delete"}[wants(w.svc)]
	w.events.warn(SyncLoadBalancerFailed, "Error syncing load balancer: failed to "+doing+" load balancer: "+err.Error())
	klog.ErrorS(err, "A Service's load balancer could not be synced; it is tried again", "service", klog.KObj(w.svc), "in", wait.Round(time.Second))
	return wait
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
	e, ok := errors.AsType[*cloudstack.Error](err)
	return ok && (e.Kind == cloudstack.KindNotFound && (e.Command == "listProjects" || strings.Contains(e.Text, "parameter projectid") || strings.Contains(e.Text, "find project by id")) ||
		e.Kind == cloudstack.KindNotPermitted && strings.Contains(e.Text, "in project ["))
}
