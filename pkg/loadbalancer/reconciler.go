// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/lru"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Result is the result of Reconcile for one Service.
type Result struct {
	// IP is the address that serves; empty if a policy did not allow the changes for one.
	IP string
	// Plan has the steps that were planned. With the policy apply and without an error, they are done.
	Plan []plan.Step
	// Unserved says why clients may not reach the Service although the sync succeeded; nil if there is no reason.
	Unserved *plan.Notice
	// Untagged means that the Service lacks tags because the role may not set them, as far as that is known.
	Untagged bool
	// Done is the number of steps that took effect, even if a later one failed.
	Done int
	// Freed means that an address or ports became available to other Services.
	Freed bool
	// Notices are to be written as Events.
	Notices []plan.Notice

	// Desired and Actual are the inputs of the plan, as far as they are known. Pending is the number of acquisitions
	// without a known result.
	Desired *plan.Desired
	Actual  *plan.Actual
	Pending int
}

// Reconciler brings many Services to their desired state at the same time. There is only one call at a time for each
// Service. The caller keeps a Memory for each Service, so that a Service with nothing to do costs no CloudStack call.
type Reconciler struct {
	Options
	Observer  *observe.Observer // reads for all Services
	role      *cloudstack.Role
	applier   *apply.Applier
	metrics   *metrics
	addresses keyed.Mutex // one sync at a time changes an address
	keeping   keyed.Mutex // by namespace: one sync at a time decides which addresses are kept
	asking    keyed.Mutex // one sync at a time asks what the role allows
	members   *lru.Cache  // shared lists of members, see oneCopy
}

// New returns a Reconciler. It makes no call.
func New(o Options) *Reconciler {
	o.ClusterName, o.Policy = cmp.Or(o.ClusterName, "kubernetes"), cmp.Or(o.Policy, plan.PolicyApply)
	role := o.API.Client.Role()
	observer := observe.New(o.API, observe.Options{
		ClusterName: o.ClusterName, Clock: o.Clock, Role: role, LeaveACLs: o.LeaveACLs,
	})
	return &Reconciler{
		Options: o, role: role, Observer: observer, metrics: newMetrics(), members: lru.New(16),
		applier: &apply.Applier{
			API: o.API, Role: role, Clock: o.Clock, Touch: observer.Touch,
		},
	}
}

// Metrics returns the metrics of the Reconciler.
func (r *Reconciler) Metrics() []prometheus.Collector {
	m := r.metrics
	return []prometheus.Collector{m.actions, m.kinds, m.drifted, m.addresses, m.moves}
}

// applies reports whether the policy allows all steps.
func (r *Reconciler) applies() bool { return r.Policy == plan.PolicyApply }

// Reconcile brings a Service to its desired state. If the request is Absent, everything of the Service is removed, and
// Reconcile returns nil only when nothing is left in CloudStack. Errors are a *plan.RefusalError if the Service cannot
// be served, a *plan.WaitError, or wrap a *cloudstack.Error. The next call continues where this one stopped.
func (r *Reconciler) Reconcile(ctx context.Context, req Request) (result Result, err error) {
	t := r.newTask(req)
	result, err = r.work(ctx, t)
	result.Notices = t.Notices
	r.metrics.moved(t.Subject, t.work.Done)
	t.release()
	t.mem.actual = t.Actual
	return result, err
}

// work brings the Service to its desired state, or maintains what it serves if the request says Keep.
func (r *Reconciler) work(ctx context.Context, t *task) (result Result, err error) {
	if t.Desired.Absent {
		t.mem.done, t.mem.tried = nil, nil
	} else if !t.req.Keep {
		if err := r.desire(ctx, t); err != nil {
			return result, err
		}
	}

	defer func() {
		result.Freed, result.Desired, result.Actual = t.work.Freed, &t.Desired, t.Actual
		if t.Actual != nil {
			t.mem.acls = t.Actual.ACLs
		}
		switch {
		case plan.Running(err) != nil: // the steps done took effect, and so will the running ones
		case Lasting(err) && !t.req.Keep: // what was refused may be allowed in the next attempt
			t.mem.doubted, t.mem.whole = true, t.Whole
		case err != nil: // the remembered state is uncertain
			t.Actual, t.mem.whole = nil, t.Whole
		}
	}()

	result.Pending = len(t.Records.Pending)
	if !t.req.Preview {
		err = t.work.Settle(ctx)
	}
	if err == nil && !t.req.Keep {
		err = r.look(ctx, t)
		t.BulkSince = time.Time{}
	}
	if err != nil {
		return result, err
	}

	// Plan again if the first round learned something new about the server, or proved the owner of items of unknown
	// origin.
	for round := range 3 {
		steps, err := r.plan(ctx, t)
		result.Plan = append(result.Plan, steps...)
		if t.req.Preview && err == nil {
			err = t.Actual.Unread
		}
		if err != nil || t.req.Preview {
			return result, err
		}

		if round == 0 && !t.req.Keep {
			r.metrics.planned(steps)
		}

		r.noteDrift(t, steps)
		err = r.apply(ctx, t, steps)
		result.Done = len(t.work.Done)
		if err != nil {
			return result, err
		}

		if t.work.Again && !t.req.Keep {
			if err := r.observe(ctx, t, false); err != nil {
				return result, err
			}
		} else if len(steps) == 0 || t.req.Keep || !r.applies() {
			break
		}
	}

	switch {
	case t.req.Keep:
		return result, t.Actual.Unread
	case t.work.Again:
		return result, &plan.WaitError{Message: "CloudStack was changed by others during the sync; reading it " +
			"again", After: 2 * time.Second}
	case t.Desired.Absent:
		return result, r.removed(t, len(result.Plan))
	case t.Actual.Unread != nil:
		return result, t.Actual.Unread
	}

	return r.served(ctx, t, result)
}

// Lasting reports whether an error of Reconcile remains until something changes, and the failed call cannot take effect
// later.
func Lasting(err error) bool {
	if plan.RefusalOf(err) != nil {
		return true
	}
	e, ok := errors.AsType[*cloudstack.Error](err)
	if !ok || e.MayHaveHappened {
		return false
	}
	switch e.Kind {
	case cloudstack.KindLimit, cloudstack.KindCapacity, cloudstack.KindConflict, cloudstack.KindNotPermitted,
		cloudstack.KindInvalid:
		return true
	default:
		// The name of the project was wrong. Other missing objects were just deleted.
		return e.Kind == cloudstack.KindNotFound && e.Command == "listProjects"
	}
}

// served records the result for a Service that wants a load balancer.
func (r *Reconciler) served(ctx context.Context, t *task, result Result) (Result, error) {
	if r.applies() {
		if err := t.work.RecordServing(ctx, true); err != nil {
			return result, err
		}
	}

	t.mem.whole = false
	t.noteTags()
	r.metrics.hold(t.mem, len(t.Actual.Addresses))
	result.Unserved = cmp.Or(plan.NoneEligible(t.Facts, t.Desired), plan.DefaultACL(t.Desired, t.Network))
	if conflict, _ := plan.SharedACL(t.Desired, t.Actual.ACLs...); conflict != nil {
		result.Unserved = plan.Warning(conflict.Reason, conflict.Error())
	}

	if target := plan.Target(t.Desired, *t.Actual); target != nil {
		result.IP = target.IP
	}

	if r.applies() {
		if t.Denied(cmdCreateTags) { // all other steps are done
			steps, _ := plan.Plan(t.Desired, *t.Actual, plan.Limits{})
			result.Untagged = len(steps) > 0
		}

		t.noteNoLongerAsked(result.IP)
		d := t.Desired
		t.mem.done, t.mem.tried = &d, plan.Changed{}
	}

	return result, nil
}

// removed completes the deletion of a Service, for which a number of steps were planned.
func (r *Reconciler) removed(t *task, planned int) error {
	if !r.applies() && planned > 0 {
		return fmt.Errorf("nothing is deleted under the policy %s", r.Policy)
	}
	if len(t.Records.Pending) > 0 {
		return &plan.WaitError{
			Message: "waiting to see whether an acquisition that got no answer has produced an address",
			After:   plan.LostAnswerGrace / 4,
		}
	}
	r.metrics.hold(t.mem, 0)
	t.mem.changes.Reset()
	return nil
}

// apply executes the steps of a plan that the policy allows.
func (r *Reconciler) apply(ctx context.Context, t *task, steps []plan.Step) error {
	t.work.Again = false
	target := plan.Target(t.Desired, *t.Actual)
	unrecorded := target != nil && !target.Recorded && r.applies()
	if steps = r.Policy.Filter(steps); len(steps) == 0 && !unrecorded {
		return nil
	}

	if err := r.lock(ctx, t); err != nil {
		return err
	}
	defer t.release()
	var err error
	switch {
	case target != nil:
		err = r.reserve(ctx, t, target.Key(), target.Use)
	case !t.Desired.Absent: // an address will be acquired
		err = r.reserve(ctx, t, t.Desired.Address, plan.AddressUse{})
	}
	if err != nil {
		return err
	}

	return t.work.Do(ctx, steps)
}

// noteNoLongerAsked tells an owner who has just removed the request for an address that the Service continues to use
// it.
func (t *task) noteNoLongerAsked(ip string) {
	if done := t.mem.done; done != nil && ip != "" && done.Address == ip && t.Desired.Address == "" {
		t.Notify(plan.Notice{Reason: plan.ReasonAddressKept, Message: fmt.Sprintf(
			"%s and spec.loadBalancerIP no longer name an address: the Service keeps %s; to change it name another "+
				"one, or delete and recreate the Service", annotation.Address, ip)})
	}
}

// noteTags warns about tags that two syncs in a row could not set: a single failure may be transient.
func (t *task) noteTags() {
	if t.work.TagErr == nil {
		t.mem.untagged = 0
		return
	}
	if t.mem.untagged++; t.mem.untagged > 1 {
		t.Notify(*plan.Warning(plan.ReasonTaggingFailed, fmt.Sprintf(
			"the Service is served, but not all of its tags could be set in CloudStack: %v; each drift round "+
				"tries again", t.work.TagErr)))
	}
}

// noteDrift reports changes of others that the steps repair.
func (r *Reconciler) noteDrift(t *task, steps []plan.Step) {
	if t.mem.done == nil || len(steps) == 0 {
		return
	}
	if t.read && !t.req.Keep {
		back, _ := plan.Plan(*t.mem.done, *t.Actual, r.limits(t))
		if repairs := plan.Repairs(steps, back, t.mem.tried); len(repairs) > 0 {
			r.metrics.drifted.Add(float64(len(repairs)))
			t.Notify(*plan.Warning(plan.ReasonDriftRepaired,
				"CloudStack was changed by others; repairing with "+plan.Text(repairs)))
		}
	}
	t.mem.tried.Add(steps)
}

// metrics are the metrics of a Reconciler.
type metrics struct {
	actions   prometheus.Histogram
	kinds     *prometheus.CounterVec
	drifted   prometheus.Counter
	addresses prometheus.Gauge
	moves     *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		actions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "cloudstack_load_balancer_plan_actions",
			Help:    "Number of actions in the plans of Services; a Service with nothing to do has 0.",
			Buckets: []float64{0, 1, 2, 5, 10, 20, 50, 100, 200},
		}),

		kinds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloudstack_load_balancer_planned_actions_total",
			Help: "Actions planned, by kind.",
		}, []string{"kind"}),

		drifted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cloudstack_drift_repaired_total",
			Help: "Actions that undid changes which others made in CloudStack.",
		}),

		addresses: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cloudstack_load_balancer_addresses",
			Help: "Public addresses that Services use.",
		}),

		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cloudstack_forward_moves_total",
			Help: "Port forwardings that were moved to another node, by reason.",
		}, []string{"reason"}),
	}

	for _, cause := range plan.Causes() {
		m.moves.WithLabelValues(string(cause)) // present from the start
	}
	return m
}

// moved counts the port forwardings that steps have moved.
func (m *metrics) moved(subject *plan.Subject, done []plan.Step) {
	for _, s := range done {
		if s.Moves() {
			m.moves.WithLabelValues(string(subject.WhyMoved(s.From).Cause)).Inc()
		}
	}
}

func (m *metrics) planned(steps []plan.Step) {
	m.actions.Observe(float64(len(steps)))
	for _, s := range steps {
		m.kinds.WithLabelValues(s.Kind).Inc()
	}
}

// hold sets the number of addresses of a Service in the metric.
func (m *metrics) hold(of *Memory, n int) {
	m.addresses.Add(float64(n - of.addresses))
	of.addresses = n
}
