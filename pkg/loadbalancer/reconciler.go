// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Result is what a Service got.
type Result struct {
	// IP is the address that serves; empty when a policy held the work back.
	IP string
	// Plan is what was found to do; with the policy apply and without an error it has been done.
	Plan []plan.Step
	// Unserved says why clients may not reach the Service although the work succeeded; nil when there is no reason.
	Unserved *plan.Notice
	// Done is how many of the plan's changes of CloudStack took effect, also when a later one failed.
	Done int
}

// Reconciler brings Services to their desired state, many at a time and each by
// one goroutine at a time: callers of Ensure, Repair, Delete, Exists and CleanOrphan hold
// the Service's Turn. It remembers what it read and wrote, so that a
// Service with nothing to do costs nothing.
type Reconciler struct {
	*Planner
	api     API
	applier *apply.Applier
	metrics *Metrics
	turns   keyed.Mutex // one task per Service, see Turn

	mu       sync.Mutex
	services map[string]*memory // by UID
}

// New makes a Reconciler. It makes no call.
func New(api API, o Options) *Reconciler {
	p := NewPlanner(api, o)
	return &Reconciler{
		Planner: p, api: api, metrics: newMetrics(), services: map[string]*memory{},
		applier: &apply.Applier{
			API: api, Server: p.server, Clock: p.options.Clock, NewJobID: p.options.NewJobID, Touch: p.observer.Touch, Released: p.options.Released,
		},
	}
}

// Metrics are the Reconciler's metrics.
func (r *Reconciler) Metrics() *Metrics { return r.metrics }

// applies reports whether plans are done in full.
func (r *Reconciler) applies() bool {
	return r.options.Policy == "" || r.options.Policy == plan.PolicyApply
}

// Turn waits until no other task works on a Service, named by its UID, and returns what ends the turn.
func (r *Reconciler) Turn(ctx context.Context, uid string) (end func(), err error) {
	return r.turns.Lock(ctx, uid)
}

// begin makes a task with what is remembered of the Service.
func (r *Reconciler) begin(ctx context.Context, req Request) (*task, error) {
	r.mu.Lock()
	mem, ok := r.services[req.Service.UID]
	if !ok {
		mem = newMemory()
		r.services[req.Service.UID] = mem
	}
	r.mu.Unlock()
	t, err := r.newTask(ctx, req, mem)
	if err != nil {
		return nil, err
	}
	t.work = &apply.Work{
		Subject: t.Subject, Records: t.records, Memory: &mem.changes, Log: func(message string) { r.options.Log(t.Service.Key(), message) },
		MayAcquire: func(ctx context.Context) error { return r.withinLimits(ctx, t) },
	}
	return t, nil
}

// forget drops the memory of a Service that has nothing left.
func (r *Reconciler) forget(uid string) {
	r.mu.Lock()
	delete(r.services, uid)
	r.mu.Unlock()
}

// failed forgets what is no longer certain. It passes errors through.
func (r *Reconciler) failed(t *task, err error) error {
	t.mem.actual = nil
	t.mem.done = nil
	t.mem.survey = t.Survey
	t.mem.rules.Forget()
	return err
}

// Ensure brings a Service to its desired state. Errors are *plan.RefusalError when the
// Service cannot be served, *plan.WaitError, or wrap *cloudstack.Error;
// the next call then goes on from where this one stopped.
func (r *Reconciler) Ensure(ctx context.Context, req Request) (Result, error) {
	t, err := r.begin(ctx, req)
	if err != nil {
		return Result{}, err
	}
	defer t.release()
	return r.ensure(ctx, t)
}

// Repair is Ensure for the drift loop: what is remembered is not trusted, and
// the reads may be shared with other Services by way of whole lists that were
// begun since; the zero time asks for this Service alone.
func (r *Reconciler) Repair(ctx context.Context, req Request, since time.Time) (Result, error) {
	t, err := r.begin(ctx, req)
	if err != nil {
		return Result{}, err
	}
	defer t.release()
	if t.mem.readAt.Before(since) || since.IsZero() {
		t.mem.actual = nil
		t.Verify = true
	}
	t.BulkSince = since
	t.tierAge = freshAge
	if !since.IsZero() {
		t.tierAge = max(time.Second, r.options.Clock.Since(since)) // read once a round for all Services of the tier
	}
	return r.ensure(ctx, t)
}

func (r *Reconciler) ensure(ctx context.Context, t *task) (Result, error) {
	if err := r.desire(ctx, t); err != nil {
		return Result{}, err
	}
	if err := r.settle(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	if t.mem.aclID != "" && t.mem.aclID != t.Desired.ACLID {
		t.AllACLs = true // the list was replaced: our items of the old one go
	}
	if err := r.look(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	t.BulkSince = time.Time{}
	var result Result
	// A second round only when the first showed something new of the server.
	for range 3 {
		steps, err := r.plan(ctx, t)
		if err != nil {
			return Result{}, r.failed(t, err)
		}
		r.noteDrift(t, steps)
		result.Plan = append(result.Plan, steps...)
		err = r.apply(ctx, t, steps)
		result.Done = t.work.Done
		if err != nil {
			return result, r.failed(t, err)
		}
		if !t.work.Again {
			break
		}
		if err := r.observe(ctx, t, false); err != nil {
			return result, r.failed(t, err)
		}
	}
	if r.applies() {
		t.records.Keep(t.mem.actual)
		if err := t.records.Save(ctx); err != nil {
			return result, r.failed(t, err)
		}
		d := t.Desired
		t.mem.done, t.mem.aclID = &d, d.ACLID
	}
	t.mem.survey = false
	t.noteTags()
	r.metrics.hold(t.Service.UID, len(t.mem.actual.Addresses))
	if result.Unserved = t.nobodyFit(); result.Unserved == nil {
		result.Unserved = plan.DefaultACL(t.Desired, t.network)
	}
	if target := plan.Target(t.Desired, *t.mem.actual); target != nil {
		result.IP = target.IP
		t.noteNoLongerAsked(target.IP)
	}
	return result, nil
}

// settle finds out what became of acquisitions without a known outcome.
func (r *Reconciler) settle(ctx context.Context, t *task) error {
	changed, err := r.applier.Settle(ctx, t.work)
	if changed {
		t.mem.actual = nil
	}
	return err
}

// apply does the part of a plan that the policy allows.
func (r *Reconciler) apply(ctx context.Context, t *task, steps []plan.Step) error {
	t.work.Actual, t.work.Again = t.mem.actual, false
	if steps = r.options.Policy.Filter(steps); len(steps) == 0 {
		return nil
	}
	if err := r.lock(ctx, t); err != nil {
		return err
	}
	defer t.release()
	if err := r.applier.Do(ctx, t.work, steps); err != nil {
		return err
	}
	for _, s := range steps {
		on, ok := s.OnRule()
		if !ok {
			continue
		}
		t.mem.rules.Deleted(on.RuleID)
		if a := t.mem.actual.Find(on.AddressID); a != nil {
			if rule := a.Rule(on.RuleID, on.Port); rule != nil {
				if slices.Equal(rule.Members, t.Desired.Members) {
					rule.Members = t.Desired.Members // which other Services share
				}
				t.mem.rules.Wrote(rule, r.options.Clock.Now())
			}
		}
	}
	return nil
}

// noteNoLongerAsked tells the owner, who has just removed the request for an address, that the Service goes on using it.
func (t *task) noteNoLongerAsked(ip string) {
	if t.mem.asked == ip && t.Desired.Address == "" {
		t.Notify(plan.Notice{Reason: plan.ReasonAddressKept, Message: fmt.Sprintf(
			"%s and spec.loadBalancerIP no longer name an address: the Service keeps %s; to change it name another one, or delete and recreate the Service", annotation.Address, ip)})
	}
	t.mem.asked = t.Desired.Address
}

// noteTags warns of tags that two syncs in a row could not set: one failure passes.
func (t *task) noteTags() {
	if t.work.TagErr == nil {
		t.mem.untagged = 0
		return
	}
	if t.mem.untagged++; t.mem.untagged > 1 {
		t.Notify(plan.Notice{Warning: true, Reason: plan.ReasonTaggingFailed, Message: fmt.Sprintf(
			"the Service is served, but not all of its tags could be set in CloudStack: %v; each drift round tries again", t.work.TagErr)})
	}
}

// noteDrift counts what others undid: actions towards a state that was reached before.
func (r *Reconciler) noteDrift(t *task, steps []plan.Step) {
	r.metrics.planned(steps)
	if !t.read || t.mem.done == nil || !t.mem.done.Equal(t.Desired) {
		return
	}
	repairs := slices.DeleteFunc(slices.Clone(steps), func(s plan.Step) bool {
		return plan.Is[plan.RememberAddress](s) || plan.Is[plan.TagAddress](s) || plan.Is[plan.TagRules](s) || plan.Is[plan.TagForwards](s)
	})
	if len(repairs) == 0 {
		return
	}
	r.metrics.drifted.Add(float64(len(repairs)))
	t.Notify(plan.Notice{Warning: true, Reason: plan.ReasonDriftRepaired, Message: "CloudStack was changed by others; repairing with " + plan.Text(repairs)})
}

// Delete removes everything of a Service's. It returns nil only when nothing is left.
func (r *Reconciler) Delete(ctx context.Context, req Request) (Result, error) {
	t, err := r.begin(ctx, req)
	if observe.ProjectMissing(req.Service, req.Spec, err) {
		r.forget(req.Service.UID)
		return Result{}, nil
	}
	if err != nil {
		return Result{}, err
	}
	defer t.release()
	return r.remove(ctx, t)
}

func (r *Reconciler) remove(ctx context.Context, t *task) (Result, error) {
	t.absent(t.Spec.KeepIP)
	if err := r.settle(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	if err := r.prove(ctx, t); err != nil {
		return Result{}, r.failed(t, err)
	}
	steps, err := r.plan(ctx, t)
	if err != nil {
		return Result{}, r.failed(t, err)
	}
	r.metrics.planned(steps)
	if err := r.apply(ctx, t, steps); err != nil {
		return Result{Plan: steps, Done: t.work.Done}, r.failed(t, err)
	}
	if !r.applies() {
		return Result{Plan: steps}, fmt.Errorf("nothing is deleted under the policy %s", r.options.Policy)
	}
	t.records.Addresses = nil
	if err := t.records.Save(ctx); err != nil {
		return Result{Plan: steps}, r.failed(t, err)
	}
	if len(t.records.Pending) > 0 {
		return Result{Plan: steps}, r.failed(t, &plan.WaitError{
			Message: "waiting to learn whether an address whose acquisition got no answer arrived after all", After: plan.LostAnswerGrace / 4,
		})
	}
	r.metrics.hold(t.Service.UID, 0)
	r.forget(t.Service.UID)
	return Result{Plan: steps}, nil
}

// Exists reports whether anything of a Service's exists, and its addresses.
func (r *Reconciler) Exists(ctx context.Context, req Request) ([]string, bool, error) {
	t, err := r.begin(ctx, req)
	if observe.ProjectMissing(req.Service, req.Spec, err) {
		r.forget(req.Service.UID)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer t.release()
	if !t.records.Empty() {
		var ips []string
		for _, a := range t.records.Addresses {
			if a.IP != "" {
				ips = append(ips, a.IP)
			}
		}
		return ips, true, nil
	}
	t.absent(false)
	if err := r.observe(ctx, t, true); err != nil {
		return nil, false, r.failed(t, err)
	}
	var ips []string
	for i := range t.mem.actual.Addresses {
		if a := &t.mem.actual.Addresses[i]; a.Ours() {
			ips = append(ips, a.IP)
		}
	}
	if len(ips) == 0 {
		r.forget(t.Service.UID)
	}
	return ips, len(ips) > 0, nil
}

// CheckProject refuses a Service that has an address in another project than the one that it names now. It comes before
// anything is looked for in the named project.
func (r *Reconciler) CheckProject(ctx context.Context, req Request) error {
	req.Notify = nil
	t, err := r.begin(ctx, req)
	if err != nil {
		return err
	}
	return r.checkProject(ctx, t)
}
