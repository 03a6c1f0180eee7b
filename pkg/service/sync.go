// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Sync brings one Service to its desired state, unless it waits after a failure. It returns when the Service has to be
// synced again at the latest (zero: when something changes), and the error of the attempt, which it has reported. There
// is only one caller at a time for each Service, which the queue ensures.
func (c *Controller) Sync(ctx context.Context, k Key) (again time.Duration, err error) {
	c.mu.Lock()
	s := c.stateOf(k)
	v, deleted, touched := s.version, s.deleted, s.touched
	c.mu.Unlock()
	if v == nil || !deleted && !touched && !v.handled {
		c.deleteState(k)
		return 0, nil
	}

	nodes, err := c.Nodes()
	w := newWork(v, s, nodes, c.Recorder)
	w.deleted, w.absent = deleted, w.absent || deleted
	switch {
	case w.absent:
		c.book.leave(k.UID) // a concurrent write may have added it again
	case err != nil:
		return time.Second, err
	}

	if wait, err := c.begin(w); wait > 0 {
		if w.overBudget {
			w.events.warn(ChangesLimited,
				fmt.Sprintf("the Services of namespace %s change too often; this change is applied in %s",
					k.Namespace, wait.Round(time.Second)))
		}
		return c.maintain(ctx, w, wait), err
	}

	if err = c.announce(ctx, w); err == nil {
		err = c.report(ctx, w, c.reconcile(ctx, w))
	}
	return c.settle(ctx, w, err)
}

// work is one sync of a Service, through gathering, reconciling and reporting.
type work struct {
	*version                   // the desired state; writes of this sync change only latest
	latest     *corev1.Service // the Service as this sync has written it last
	absent     bool            // the Service no longer wants a load balancer
	deleted    bool            // the Service no longer exists
	project    string          // the project that the Service names, by name or id
	key        Key
	state      *state
	all        []*corev1.Node // the nodes of the cluster
	nodes      []*corev1.Node // those that are eligible
	events     events
	attempt    attempt
	began      time.Time // start of the attempt
	first      bool      // the first sync of this request of the owner
	lacksVM    bool      // a node has no VM
	overBudget bool      // the sync waits for the budget of its namespace
	fresh      bool      // VMs are read again if the list is older than some seconds
	preview    bool      // nothing is written

	serving  []*corev1.Node // those of the chosen nodes that serve
	unserved *plan.Notice   // why no node serves; nil if some do
	request  loadbalancer.Request
	loadbalancer.Result
}

// newWork returns a sync of a version of a Service. nodes are all nodes of the cluster.
func newWork(v *version, s *state, nodes []*corev1.Node, on Recorder) *work {
	return &work{
		version: v, latest: v.svc, absent: !v.wants, project: v.spec.Project, key: KeyOf(v.svc), state: s,
		all: nodes, nodes: Eligible(nodes), events: events{on, v.svc, map[plan.Notice]bool{}},
	}
}

// begin starts an attempt. If the Service still has to wait, begin returns the remaining wait, and the error of the
// last attempt.
func (c *Controller) begin(w *work) (wait time.Duration, err error) {
	w.attempt = attempt{fingerprint: deletion}
	if !w.absent {
		w.attempt = attempt{fingerprint: w.asked, nodes: w.chosen(), project: w.spec.Project}
	}
	c.heartbeats.Use(string(w.key.UID), w.forwards && !w.absent)

	c.mu.Lock()
	defer c.mu.Unlock()
	w.began = c.Clock.Now()

	if wait = w.state.retry.remainingWait(w.attempt, w.began); wait > 0 {
		return wait, w.state.retry.err
	}
	if wait = c.budgetWait(w, w.began); wait == 0 {
		w.state.retry.began = w.began
	}
	return wait, nil
}

// announce writes what has to precede the first call: the finalizer, and an Event.
func (c *Controller) announce(ctx context.Context, w *work) error {
	if w.absent {
		if w.state.touched || w.served() {
			w.events.note(DeletingLoadBalancer, "Deleting load balancer")
		}
		return nil
	}

	if c.applies() {
		if err := c.addFinalizer(ctx, w); err != nil {
			return fmt.Errorf("add the finalizer to the Service: %w", err)
		}
	}

	c.mu.Lock()
	w.first = w.changed() && c.applies() && !w.foreign
	w.state.asked, w.state.touched = w.asked, true
	c.mu.Unlock()

	if w.first {
		w.events.note(EnsuringLoadBalancer, "Ensuring load balancer")
	}
	return nil
}

// applies reports whether the policy allows any change.
func (c *Controller) applies() bool { return c.Policy != plan.PolicyDryRun }

// reconcile gathers the request and passes it to the load balancers, again if they ask for that.
func (c *Controller) reconcile(ctx context.Context, w *work) (err error) {
attempts:
	for {
		if err = c.gather(ctx, w); err == nil {
			w.Result, err = c.balance(ctx, w)
		}

		switch {
		case w.follow(err):
		case w.absent && w.project != "" && cloudstack.IsNotFound(err) && !w.served():
			w.project = "" // nothing was ever in that project; what the Service had before is in the configured one
		case errors.Is(err, loadbalancer.ErrStale): // only before w.fresh is set
			w.fresh = true
		default:
			break attempts
		}
	}

	if refusal := plan.RefusalOf(err); refusal != nil && refusal.Reason == plan.ReasonNoNodes {
		return plan.Refuse(refusal.Reason, w.noneEligible()+", so that the network of the address is not known",
			refusal.Remedy)
	}
	return projectRefusal(w.spec.Project, err)
}

// follow makes the sync continue in the project in which an error says that the Service has its address, and reports
// whether there is such a project. Nothing names the account itself while a project is configured.
func (w *work) follow(err error) bool {
	elsewhere, found := errors.AsType[*loadbalancer.ElsewhereError](err)
	if !found || w.project == elsewhere.Project {
		return false
	}
	w.project = elsewhere.Project
	return true
}

// balance passes the request to the load balancers, and writes their notices as Events.
func (c *Controller) balance(ctx context.Context, w *work) (loadbalancer.Result, error) {
	result, err := c.reconciler.Reconcile(ctx, w.request)
	for _, n := range result.Notices {
		w.events.notice(n)
	}
	return result, err
}

// gather builds the request: what the Service asks for, what the operator's policy grants, and the nodes that serve.
// Errors in the Service itself are refused before nodes are looked up.
func (c *Controller) gather(ctx context.Context, w *work) error {
	if w.foreign && !w.absent {
		return plan.Refuse(ClassNotServed,
			"the controller no longer serves its loadBalancerClass; its load balancer stays, and its members "+
				"follow the nodes",
			"serve the class again (chart values loadBalancers.class and loadBalancers.classless), or change the "+
				"type of the Service")
	}

	if w.invalid != nil && !w.absent { // invalid annotations do not prevent a deletion
		return plan.Refuse(plan.ReasonInvalidAnnotation, w.invalid.Error(), "")
	}

	ns, err := c.namespace(ctx, w.svc.Namespace)
	c.ask(w, ns)
	if err != nil {
		return err
	}
	if w.absent {
		return c.locate(ctx, w)
	}

	for _, text := range w.spec.Warnings {
		w.events.warn(IgnoredSetting, text)
	}

	if denial := c.Tenancy.Check(ns, w.svc); denial != nil {
		return plan.Refuse(plan.ReasonNotAllowed, denial.Message, denial.Remedy)
	}

	if refusal := plan.CheckService(w.id, w.spec); refusal != nil {
		return refusal
	}

	return c.findBackends(ctx, w)
}

// ask fills the request with what the load balancers need to know about the Service itself.
func (c *Controller) ask(w *work, ns tenancy.Namespace) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.request = loadbalancer.Request{
		Facts:   plan.Facts{Service: w.id, Spec: w.spec},
		Absent:  w.absent,
		AllACLs: w.deleted,
		Fresh:   w.fresh,
		Preview: w.preview,
		Grants:  grantsOf(c.Tenancy, ns, w.spec.Address),
		Records: c.records(w),
		Memory:  &w.state.memory,
	}
	if !w.absent {
		w.request.Since = w.state.since
	}
}

// report writes the result of a sync to the Service, and returns its error.
func (c *Controller) report(ctx context.Context, w *work, err error) error {
	switch {
	case errors.Is(err, errChanged):
		return err
	case w.absent:
		return c.reportRemoval(ctx, w, err)
	}

	var status *corev1.LoadBalancerStatus // nil leaves it as it is
	switch {
	case err != nil:
	case c.applies():
		status = statusOf(w)
	case len(w.Plan) > 0:
		w.events.note(DryRun, "dry run, not done: "+plan.Text(w.Plan))
	}

	if w.state.served && plan.Running(err) != nil && !errors.Is(err, cloudstack.ErrJobTimeout) {
		return err // the Service is served, and most jobs end soon
	}

	serr := c.writeStatus(ctx, w, status, err)
	switch {
	case err != nil:
		return err // the Service may be served as before
	case serr != nil:
		return fmt.Errorf("change the status of the Service: %w", serr)
	case w.unserved != nil:
		w.events.notice(*w.unserved)
	}

	switch {
	case w.first:
		w.events.note(EnsuredLoadBalancer, "Ensured load balancer")
	case (w.Done > 0 || w.state.lacksVM && !w.lacksVM) && len(w.nodes) > 0:
		w.events.note(UpdatedLoadBalancer, "Updated load balancer with new hosts")
	}

	return nil
}

// reportRemoval is like report, for a Service that no longer wants a load balancer. It removes the finalizer.
func (c *Controller) reportRemoval(ctx context.Context, w *work, err error) error {
	if err != nil {
		return err
	}

	if err := c.release(ctx, w); err != nil {
		return fmt.Errorf("remove the finalizer of the Service: %w", err)
	}

	w.events.note(DeletedLoadBalancer, "Deleted load balancer")
	c.deleteState(w.key)
	c.tryNext(true) // its ports are free, and so may be an address that it shared or kept
	return nil
}

// settle records how a sync ended, and returns when the Service has to be synced again.
func (c *Controller) settle(ctx context.Context, w *work, err error) (again time.Duration, _ error) {
	c.book.settle(w.key.UID)
	c.charge(w)
	running := plan.Running(err)

	switch {
	case errors.Is(err, context.Canceled):
		return 0, err // the process is stopping
	case errors.Is(err, errChanged):
		c.with(w.key, func(s *state) { s.asked = "" }) // the next sync is the first one of the owner's new request
		c.queue.Add(w.key)
	case running != nil:
		running.Notify(func() { c.queue.Add(w.key) })
		again = running.After
		if errors.Is(err, cloudstack.ErrJobTimeout) {
			again = max(again, c.failed(w, err))
		}
		c.tryNext(w.Freed)
	case err != nil:
		again = c.maintain(ctx, w, c.failed(w, err))
	case !w.absent:
		c.succeeded(w)
	}

	return again, err
}

// maintain maintains what a Service serves while its new request is refused or has to wait. It returns when the Service
// has to be synced again: after a failure of maintain, or at the end of the wait.
func (c *Controller) maintain(ctx context.Context, w *work, wait time.Duration) (again time.Duration) {
	c.mu.Lock()
	lasting, again := w.overBudget || w.state.retry.kind >= byOthers, w.state.upkeep.until.Sub(c.Clock.Now())
	w.version = w.state.version // it has the record of an address that this sync has acquired
	c.mu.Unlock()

	switch {
	case w.absent || !lasting || !w.served():
		return wait
	case again > 0:
		return min(wait, again)
	}

	result, err := c.applyMaintenance(ctx, w)
	c.tryNext(result.Done > 0)
	if running := plan.Running(err); running != nil {
		running.Notify(func() { c.queue.Add(w.key) })
		return min(wait, running.After)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		w.state.upkeep = retry{}
		return wait
	}
	wait = min(wait, w.state.upkeep.failed(attempt{}, err, result, c.Clock.Now()))
	if ctx.Err() == nil {
		klog.ErrorS(err, "Cannot update the existing load balancer of a refused Service; trying again",
			"service", klog.KObj(w.svc), "in", wait.Round(time.Second))
	}
	return wait
}

// applyMaintenance maintains what a refused Service serves. It looks for the nodes in the project in which the Service
// has its address.
func (c *Controller) applyMaintenance(ctx context.Context, w *work) (loadbalancer.Result, error) {
	if !w.spec.Records.Empty() {
		w.project = w.spec.Records.Project()
	}
	said := w.events
	w.events = events{} // problems of the nodes have been reported already
	c.ask(w, tenancy.Namespace{})

	err := c.findBackends(ctx, w)
	w.events = said

	refused := plan.RefusalOf(err) != nil
	if err != nil && !refused {
		return loadbalancer.Result{}, err
	}

	unreadable := w.spec.NodeSelector == nil && w.svc.Annotations[annotation.NodeSelector] != ""
	w.request.Keep, w.request.MembersKnown = true, !refused && !unreadable
	result, err := c.balance(ctx, w)
	if w.follow(err) {
		return c.applyMaintenance(ctx, w)
	}
	return result, err
}

// succeeded records that a Service is served. Ports that it no longer uses are free for others. If it has acquired the
// address that it requests, other Services that request the same address can share it now: their simultaneous attempts
// to acquire it have failed.
func (c *Controller) succeeded(w *work) {
	c.mu.Lock()
	w.state.retry, w.state.served, w.state.lacksVM = retry{}, true, w.lacksVM
	w.state.unhealthy = w.Unserved != nil && w.Unserved.Reason == plan.ReasonNoHealthyNode
	c.mu.Unlock()
	ports := slices.ContainsFunc(w.Plan, func(s plan.Step) bool {
		return s.Kind == plan.DeleteRule || s.Kind == plan.DeleteForward
	})
	c.tryNext(w.Freed || ports || w.spec.Address != "" && w.Done > 0)
}

// failed records and reports a failed attempt, and returns how long the Service waits.
func (c *Controller) failed(w *work, err error) time.Duration {
	c.mu.Lock()
	w.state.served = false
	w.state.retry.failed(w.attempt, err, w.Result, c.Clock.Now())
	// All Services that wait for an address in the project wait for the same limit, so one attempt counts for all.
	if shortage(err) {
		for _, s := range c.states {
			if s.retry.project == w.attempt.project && shortage(s.retry.err) && s.retry.began.Before(w.began) {
				s.retry.began = w.began
			}
		}
	}
	c.mu.Unlock()

	c.tryNext(w.Freed)
	c.mu.Lock()
	wait := max(0, w.state.retry.until.Sub(c.Clock.Now()))
	c.mu.Unlock()

	if refusal := plan.RefusalOf(err); refusal != nil {
		w.events.warn(refusal.Reason, refusal.Error())
	}
	doing := "ensure"
	if w.absent {
		doing = "delete"
	}
	w.events.warn(SyncLoadBalancerFailed,
		"Error syncing load balancer: failed to "+doing+" load balancer: "+err.Error())
	klog.ErrorS(err, "A Service's load balancer could not be synced; it is tried again",
		"service", klog.KObj(w.svc), "in", wait.Round(time.Second))
	return wait
}

// projectRefusal turns the error that the project of a Service cannot be used into a refusal that names the annotation.
// Errors about other projects are for the operator; they, and all others, are returned unchanged.
func projectRefusal(project string, err error) error {
	if project == "" || !unknownProject(err) {
		return err
	}
	return plan.Refuse(
		plan.ReasonNoSuchProject,
		fmt.Sprintf("annotation %s names project %q, which does not exist or does not have the controller's user "+
			"as a member", annotation.Project, project),
		"correct the annotation, or have the user added to the project in CloudStack; the Service is tried again",
	)
}

// unknownProject reports whether an error says that the project does not exist, or that the caller has no access to it.
func unknownProject(err error) bool {
	e, ok := errors.AsType[*cloudstack.Error](err)
	return ok &&
		(e.Kind == cloudstack.KindNotFound &&
			(e.Command == "listProjects" ||
				strings.Contains(e.Text, "parameter projectid") ||
				strings.Contains(e.Text, "find project by id")) ||
			e.Kind == cloudstack.KindNotPermitted && strings.Contains(e.Text, "in project ["))
}
