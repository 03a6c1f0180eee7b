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
	v, gone, touched, orphans := s.version, s.gone, s.touched, s.orphans
	c.mu.Unlock()
	if len(orphans) > 0 && (v == nil || gone) {
		return 0, c.cleanOrphans(ctx, k, orphans)
	}
	if v == nil || !gone && !touched && !Handles(v.svc) {
		c.forget(k)
		return 0, nil
	}
	w := &work{version: v, key: k, state: s, latest: v.svc, absent: gone || !wants(v.svc), project: v.spec.Project, events: events{c.deps.Recorder, v.svc}}
	if w.absent {
		c.book.leave(k.UID) // a write that was under way may have brought it back
		return c.attempt(ctx, w, c.remove)
	}
	return c.attempt(ctx, w, c.ensure)
}

// work is a Service that is worked on.
type work struct {
	*version                 // what is asked for: what this sync writes changes latest alone
	latest   *corev1.Service // as this sync has written it last
	absent   bool            // it no longer wants a load balancer
	project  string          // where the nodes' VMs are, by name or id
	key      Key
	state    *state
	nodes    []*corev1.Node // those that are eligible
	lacks    bool           // a node has no VM
	events   events
	began    time.Time // of the attempt
}

// outcome is what a sync achieved.
type outcome struct {
	loadbalancer.Result
	status *corev1.LoadBalancerStatus // nil after an error
}

// attempt makes one attempt, and notes how it ended.
func (c *Controller) attempt(ctx context.Context, w *work, do func(context.Context, *work) (outcome, error)) (again time.Duration, err error) {
	a := attempt{fingerprint: deletion}
	if !w.absent {
		all, err := c.deps.Nodes()
		if err != nil {
			return time.Second, err
		}
		w.nodes = Eligible(all)
		chosen := selected(w.spec, w.nodes)
		a = attempt{
			fingerprint: w.asked, nodes: c.members.Key(chosen, c.unhealthy(w, chosen)), project: w.spec.Project,
		}
	}
	var held time.Duration
	c.with(w.key, func(s *state) {
		s.forwards = w.forwards && !w.absent
		if held = s.retry.held(a, c.deps.Clock.Now()); held > 0 {
			err = s.retry.err
		}
	})
	c.heartbeats.Use(string(w.key.UID), w.forwards && !w.absent)
	if held > 0 {
		return c.keep(ctx, w, held), err
	}
	w.began = c.deps.Clock.Now()
	out, err := do(ctx, w)
	c.book.settle(w.key.UID)
	switch {
	case errors.Is(err, context.Canceled):
		return 0, err // the process ends
	case plan.Running(err) != nil:
		again = c.awaitJob(ctx, w, plan.Running(err))
		if errors.Is(err, cloudstack.ErrJobTimeout) {
			again = max(again, c.failed(w, a, out, err))
		}
		return again, err
	case err != nil:
		return c.keep(ctx, w, c.failed(w, a, out, err)), err
	case !w.absent:
		c.succeeded(w, out)
	}
	return 0, nil
}

// keep keeps up what a Service serves while it waits because what it asks for was refused, and returns when the Service is looked at
// again: when that failed, or at the end of the wait.
func (c *Controller) keep(ctx context.Context, w *work, wait time.Duration) (again time.Duration) {
	lasting, now := false, c.deps.Clock.Now()
	c.with(w.key, func(s *state) {
		lasting, again = s.retry.kind >= byOthers, s.upkeep.until.Sub(now)
	})
	switch {
	case w.absent || !lasting || !w.served():
		return wait
	case again > 0:
		return min(wait, again)
	}

	result, err := c.keepUp(ctx, w, c.reconciler.Keep)
	if running := plan.Running(err); running != nil {
		return min(wait, c.awaitJob(ctx, w, running))
	}
	c.with(w.key, func(s *state) {
		if err == nil {
			s.upkeep = retry{}
			return
		}
		again = s.upkeep.failed(attempt{}, err, result, now, c.deps.Clock.Now())
		wait = min(wait, again)
	})
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "What a refused Service serves could not be kept up; it is tried again", "service", klog.KObj(w.svc), "in", wait.Round(time.Second))
	}
	return wait
}

// upkeep is the last step of keepUp.
type upkeep func(ctx context.Context, req loadbalancer.Request, membersKnown bool) (loadbalancer.Result, error)

// keepUp keeps up what a refused Service serves. Its nodes are looked for in the project in which it has its address.
func (c *Controller) keepUp(ctx context.Context, w *work, last upkeep) (loadbalancer.Result, error) {
	if len(w.spec.Records.Addresses) > 0 {
		w.project = w.spec.Records.Project()
	}
	unreadable := w.spec.NodeSelector == nil && w.svc.Annotations[annotation.NodeSelector] != ""
	b, err := c.backends(ctx, w, events{}) // what is wrong with the nodes was said before
	_, refused := errors.AsType[*plan.RefusalError](err)
	if err != nil && !refused {
		return loadbalancer.Result{}, err
	}
	req := c.request(w, tenancy.Namespace{})
	req.Members, req.Reach, req.Ineligible = b.members, b.reach, texts(b.unhealthy)
	return last(ctx, req, !refused && !unreadable)
}

// awaitJob puts a Service into the queue when a job of it has ended, and returns when it is looked at again without that.
func (c *Controller) awaitJob(ctx context.Context, w *work, wait *plan.WaitError) time.Duration {
	known := false
	c.with(w.key, func(s *state) { known, s.jobEnded = s.jobEnded == wait.Ended, wait.Ended })
	if !known {
		go func() {
			select {
			case <-wait.Ended:
				c.queue.Add(w.key)
			case <-ctx.Done():
			}
		}()
	}
	return wait.After
}

// ensure brings a Service that wants a load balancer to its desired state, and writes its status.
func (c *Controller) ensure(ctx context.Context, w *work) (out outcome, err error) {
	if c.applies() {
		if err := c.addFinalizer(ctx, w); err != nil {
			return out, fmt.Errorf("add the finalizer to the Service: %w", err)
		}
	}
	first, lacked := false, false
	c.with(w.key, func(s *state) {
		resumed := s.asked == "" && apimeta.IsStatusConditionTrue(w.svc.Status.Conditions, ConditionReady) // by a new process
		first = s.asked != w.asked && !resumed && c.applies()
		lacked = s.served && s.lacks // a warning has named the node without a VM
		s.asked, s.touched = w.asked, true
	})
	if first {
		w.events.note(EnsuringLoadBalancer, "Ensuring load balancer")
	}
	out, err = c.reconcile(ctx, w, c.reconciler.Reconcile)
	served := false
	c.with(w.key, func(s *state) { served = s.served })
	if served && plan.Running(err) != nil && !errors.Is(err, cloudstack.ErrJobTimeout) {
		return out, err // it is served, and most jobs end soon
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

// applies reports whether the policy lets the controller change anything.
func (c *Controller) applies() bool { return c.deps.Policy != plan.PolicyDryRun }

// reconcile is the last step of a sync.
type reconcile func(context.Context, loadbalancer.Request) (loadbalancer.Result, error)

// reconcile decides what the Service alone and its nodes decide, and hands the rest to the load balancers.
func (c *Controller) reconcile(ctx context.Context, w *work, last reconcile) (out outcome, err error) {
	defer func() { err = projectRefusal(w.svc, err) }()
	req, err := c.accept(ctx, w)
	if err != nil {
		return out, err
	}
	b, err := c.backends(ctx, w, w.events)
	if err != nil {
		return out, err
	}
	var unserved *plan.Notice
	if b.none != "" {
		unserved = &plan.Notice{Warning: true, Reason: plan.ReasonNoBackends, Message: b.none + "; the Service gets no traffic"}
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
	if !c.applies() {
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
	if w.state.touched || w.served() {
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
	doing := map[bool]string{true: "ensure", false: "delete"}[!w.absent]
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
