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

// API is what the package needs of CloudStack.
type API = apply.API

// FromClient makes a client an API.
func FromClient(c *cloudstack.Client) API { return API{Reader: c, Client: c} }

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
	// Freed means that an address or ports became free for other Services.
	Freed bool
	// Notices are worth Events.
	Notices []plan.Notice

	// Desired and Actual are what the plan was made of, as far as that is known. Pending is how many acquisitions had
	// no known result.
	Desired *plan.Desired
	Actual  *plan.Actual
	Pending int
}

// Reconciler brings Services to their desired state, many at a time. For each Service there is one call at a time; what
// is remembered of it is the caller's Memory, so that a Service with nothing to do costs no call.
type Reconciler struct {
	api API
	Options
	role      *cloudstack.Role
	observer  *observe.Observer
	applier   *apply.Applier
	metrics   *metrics
	addresses keyed.Mutex // one submitter per address
	keeping   keyed.Mutex // one per namespace decides which addresses it keeps
	asking    keyed.Mutex // one asks what the role allows
	members   *lru.Cache  // lists of members, see oneCopy
}

// New makes a Reconciler. It makes no call.
func New(api API, o Options) *Reconciler {
	o.ClusterName, o.Policy = cmp.Or(o.ClusterName, "kubernetes"), cmp.Or(o.Policy, plan.PolicyApply)
	role := api.Client.Role()
	observer := observe.New(api, observe.Options{
		ClusterName: o.ClusterName, VMs: o.VMs, Place: o.place, Clock: o.Clock, Role: role, LeaveACLs: o.LeaveACLs,
	})
	return &Reconciler{
		api: api, Options: o, role: role, observer: observer, metrics: newMetrics(), members: lru.New(16),
		applier: &apply.Applier{API: api, Role: role, Clock: o.Clock, Touch: observer.Touch},
	}
}

// Metrics are the Reconciler's metrics.
func (r *Reconciler) Metrics() []prometheus.Collector {
	return []prometheus.Collector{r.metrics.actions, r.metrics.kinds, r.metrics.drifted, r.metrics.held}
}

// applies reports whether plans are done in full.
func (r *Reconciler) applies() bool { return r.Policy == plan.PolicyApply }

// Reconcile brings a Service to its desired state, which is nothing for one that is Absent: then it returns nil only
// when nothing is left. Errors are *plan.RefusalError when the Service cannot be served, *plan.WaitError, or wrap
// *cloudstack.Error; the next call goes on from where this one stopped.
func (r *Reconciler) Reconcile(ctx context.Context, req Request) (result Result, err error) {
	t, err := r.newTask(ctx, req)
	if err == nil {
		result, err = r.work(ctx, t)
		result.Notices = t.Notices
		t.release()
		t.mem.actual = t.Actual
	}
	if req.Absent &&
		cloudstack.IsNotFound(err) &&
		req.Spec.Project != "" &&
		req.Spec.Records.Empty() &&
		len(req.Service.StatusIPs) == 0 {
		req.Spec.Project = "" // nothing was ever in that project; what the Service had before is in the configured one
		return r.Reconcile(ctx, req)
	}
	return result, err
}

// work brings the Service to its desired state, or keeps up what it serves.
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
		case plan.Running(err) != nil: // what was done took effect, and so does the rest
		case Lasting(err) && !t.req.Keep: // what was refused may be allowed by the time of the next attempt
			t.mem.doubted, t.mem.whole = true, t.Whole
		case err != nil: // what is remembered is not certain
			t.Actual, t.mem.whole = nil, t.Whole
		}
	}()

	result.Pending = len(t.Records.Pending)
	if !t.req.Preview {
		err = r.settle(ctx, t)
	}
	if err == nil && !t.req.Keep {
		err = r.look(ctx, t)
		t.BulkSince = time.Time{}
	}
	if err != nil {
		return result, err
	}
	// A second round when the first showed something new of the server, or proved ours what was of unknown origin.
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
		return result, &plan.WaitError{Message: "others change what was read; it is read again", After: 2 * time.Second}
	case t.Desired.Absent:
		return result, r.gone(t, len(result.Plan))
	case t.Actual.Unread != nil:
		return result, t.Actual.Unread
	}
	return r.served(ctx, t, result)
}

// Lasting reports whether an error of Reconcile stays until something changes, and nothing is on its way because of the
// call.
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
		// a project was misspelt; other things just vanish
		return e.Kind == cloudstack.KindNotFound && e.Command == "listProjects"
	}
}

// settle completes what earlier syncs left running, as far as it has ended.
func (r *Reconciler) settle(ctx context.Context, t *task) error {
	known, changed := t.Actual != nil, false
	err := t.work.Resume(ctx)
	if err == nil {
		changed, err = t.work.Settle(ctx)
	}
	if changed || !known {
		t.Actual = nil
	}
	return err
}

// served notes what a Service has that wants a load balancer.
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
		t.noteNoLongerAsked(result.IP)
		d := t.Desired
		t.mem.done, t.mem.tried = &d, plan.Changed{}
	}

	return result, nil
}

// gone ends the deletion of a Service, which planned some steps.
func (r *Reconciler) gone(t *task, planned int) error {
	if !r.applies() && planned > 0 {
		return fmt.Errorf("nothing is deleted under the policy %s", r.Policy)
	}
	if len(t.Records.Pending) > 0 {
		return &plan.WaitError{
			Message: "waiting to learn whether an address whose acquisition got no answer arrived after all",
			After:   plan.LostAnswerGrace / 4,
		}
	}
	r.metrics.hold(t.mem, 0)
	t.mem.changes.Forget()
	return nil
}

// apply does the part of a plan that the policy allows.
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
		err = r.reserve(ctx, t, target.Key(), target.Claim)
	case !t.Desired.Absent: // one is acquired
		err = r.reserve(ctx, t, t.Desired.Address, plan.Claim{})
	}

	if err != nil {
		return err
	}

	return t.work.Do(ctx, steps)
}

// noteNoLongerAsked tells the owner, who has just removed the request for an address, that the Service goes on using
// it.
func (t *task) noteNoLongerAsked(ip string) {
	if done := t.mem.done; done != nil && ip != "" && done.Address == ip && t.Desired.Address == "" {
		t.Notify(plan.Notice{Reason: plan.ReasonAddressKept, Message: fmt.Sprintf(
			"%s and spec.loadBalancerIP no longer name an address: the Service keeps %s; to change it name another "+
				"one, or delete and recreate the Service", annotation.Address, ip)})
	}
}

// noteTags warns of tags that two syncs in a row could not set: one failure passes.
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

// noteDrift reports what others undid.
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

// metrics are a Reconciler's.
type metrics struct {
	actions prometheus.Histogram
	kinds   *prometheus.CounterVec
	drifted prometheus.Counter
	held    prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
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
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cloudstack_load_balancer_addresses",
			Help: "Public addresses that Services use.",
		}),
	}
}

func (m *metrics) planned(steps []plan.Step) {
	m.actions.Observe(float64(len(steps)))
	for _, s := range steps {
		m.kinds.WithLabelValues(s.Kind).Inc()
	}
}

// hold notes how many addresses a Service has.
func (m *metrics) hold(of *Memory, n int) {
	m.held.Add(float64(n - of.held))
	of.held = n
}
