// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply does plans: it makes an action's call, waits for its job, and changes the model as CloudStack changed.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// API is CloudStack.
type API struct {
	observe.Reader
	Jobs
	// Client makes the calls that change something.
	Client *cloudstack.Client
}

// Jobs waits for jobs. An error of KindJobFailed is that of a job that failed.
type Jobs interface {
	// Wait returns when the job has ended.
	Wait(ctx context.Context, command, jobID string) (*cloudstack.Job, error)
	// Await is Wait the caller's way; it returns nil for a job that has ended and whose result was not read.
	Await(ctx context.Context, a cloudstack.Await) (*cloudstack.Job, error)
	// Result is Wait for a job that has ended.
	Result(ctx context.Context, command, jobID string) (*cloudstack.Job, error)
}

// Applier does plans of many Services at a time.
type Applier struct {
	API   API
	Role  *cloudstack.Role
	Clock clock.PassiveClock
	// Touch is called with the id of an address before and after it is written to.
	Touch func(addressID string)

	acls        keyed.Mutex // one chooser of numbers per network ACL list
	associating keyed.Mutex // per project: two associateIpAddress at once make the server sleep
	internal    sync.Map    // the last *job on an internal address, by its id
}

// Work is what is to be done for one Service, and what became of it. Actual and Records change as actions take effect.
type Work struct {
	*plan.Subject
	Memory *Memory
	// MayAcquire refuses an address that is one too many; it is empty when CloudStack chooses it.
	MayAcquire func(ctx context.Context, address string) error
	store      Store
	stored     annotation.Records // as on the Service

	// Done are the steps that took effect. Freed means that an address was released.
	Done  []plan.Step
	Freed bool
	// Again asks for another look.
	Again bool
	// patience is how long the sync may still wait for jobs.
	patience time.Duration
	// TagErr is why tags could not be set; the Service is served without.
	TagErr error
}

// NewWork returns the work of one sync. The subject has the records that are on the Service.
func NewWork(subject *plan.Subject, memory *Memory, store Store) *Work {
	return &Work{Subject: subject, Memory: memory, store: store, stored: subject.Records.Clone(), patience: patience}
}

// run is the work on one plan, and on those that follow while jobs of it still run.
type run struct {
	*Applier
	*Work
	known *plan.Actual // by the last plan; for jobs that end when Actual is not known any more
	jobs  []*job
	rules map[int]string      // ids of rules created in this run, by port
	made  map[string][]string // ids of all items created by the plan, by their type for createTags
	left  time.Duration       // when to look again for actions of the wave that had to wait; zero for none
}

// note notes a submitted job. It is waited for when there is nothing left to submit, see finish: until then a poll
// would change nothing.
func (r *run) note(s plan.Step, command string, submitted cloudstack.Submitted) *job {
	if s.Kind == plan.CreateRule {
		r.rules[s.Port] = submitted.ID
	}
	if a := r.on(s); s.ACLID == "" && a != nil {
		s.AddressID = a.ID
	}
	j := &job{step: s, rule: r.ruleID(s), command: command, id: submitted.JobID, submitted: r.Clock.Now(), outcome: plan.Outcome{ID: submitted.ID}}
	if at := slices.IndexFunc(r.jobs, func(other *job) bool { return j.rule != "" && other.rule == j.rule }); at >= 0 {
		j.after = r.jobs[at]
	}
	r.jobs = append(r.jobs, j)
	if kind := s.Makes(); kind != "" {
		r.made[kind] = append(r.made[kind], submitted.ID)
	}
	return j
}

// ruleID is the id of an action's item; that of a rule made in this run is known as soon as its creation was answered, and
// its job need not have ended.
func (r *run) ruleID(s plan.Step) string {
	if s.ItemID == "" && s.OnRule() {
		return r.rules[s.Port]
	}
	return s.ItemID
}

// on returns the address of an action.
func (r *run) on(s plan.Step) *plan.Address { return r.Actual.Find(s.AddressID) }

func (r *run) touch(s plan.Step) {
	if a := r.on(s); s.ACLID == "" && s.Kind != plan.AllocateAddress && a != nil {
		r.Touch(a.ID)
	}
}

// effect changes the model as CloudStack changed.
func (r *run) effect(s plan.Step, o plan.Outcome) {
	*r.Actual = s.Effect(*r.Actual, o)
	r.Done = append(r.Done, s)
}

// Store keeps records on one Service.
type Store interface {
	// Load reads the records as they are now, not from a cache.
	Load(ctx context.Context) (annotation.Records, error)
	// Save replaces them. A Service that is gone is no error.
	Save(ctx context.Context, r annotation.Records) error
}

// ErrRecordsChanged means that the Service has other records than the sync began with: it must begin again with these.
var ErrRecordsChanged = errors.New("the records of the Service were changed meanwhile")

// check compares the records with the Service as the API server has it now.
func (w *Work) check(ctx context.Context) error {
	live, err := w.store.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the Service's records: %w", err)
	}
	if live.Equal(w.stored) {
		return nil
	}
	w.Records, w.stored = live.Clone(), live
	return ErrRecordsChanged
}

// save writes the records to the Service if they changed.
func (w *Work) save(ctx context.Context) error {
	if w.stored.Equal(w.Records) {
		return nil
	}
	if err := w.store.Save(ctx, w.Records); err != nil {
		return fmt.Errorf("record addresses on the Service: %w", err)
	}
	w.stored = w.Records.Clone()
	return nil
}

// DropLost drops the records of addresses that the Service has no more.
func (w *Work) DropLost() {
	w.Records.Addresses = slices.DeleteFunc(w.Records.Addresses, func(rec annotation.AddressRecord) bool {
		a := w.Actual.Find(rec.ID)
		return a == nil || a.Lost
	})
}

func (w *Work) record(rec annotation.AddressRecord) {
	w.drop(rec.ID)
	w.Records.Addresses = append(w.Records.Addresses, rec)
}

func (w *Work) drop(id string) {
	w.Records.Addresses = slices.DeleteFunc(w.Records.Addresses, func(x annotation.AddressRecord) bool { return x.ID == id })
}

func (w *Work) dropPending(jobID string) {
	w.Records.Pending = slices.DeleteFunc(w.Records.Pending, func(p annotation.PendingAllocation) bool { return p.JobID == jobID })
}

// RecordServing records the address that serves. The record names ports before they are opened and until they are closed;
// when a plan is done, and no call that opens one can still arrive, only the wanted ones.
func (w *Work) RecordServing(ctx context.Context, done bool) error {
	if target := plan.Target(w.Desired, *w.Actual); target != nil {
		a := w.Actual.Find(target.ID)
		opened, forwarded, targets := w.Desired.Opened(), w.Desired.Forwarded(), w.Desired.Targets()
		if !done || !a.Settled {
			opened, forwarded, targets = opened.Union(a.RecordedPorts), forwarded.Union(a.ForwardPorts), targets.Union(a.ForwardTargets)
		}
		a.RecordedPorts, a.ForwardPorts, a.ForwardTargets, a.Recorded = opened, forwarded, targets, true
		a.HasStickiness = a.HasStickiness || w.Desired.HasStickiness()
		w.record(a.Record(w.OwnProject, w.Desired.NetworkID))
	}
	return w.save(ctx)
}

// Do does a plan: wave after wave, within a wave submitting ahead and then
// waiting for all its jobs. It stops at the first failure, after the jobs
// under way have ended, and leaves the rest to the next sync. It stops with a *plan.WaitError when jobs of a wave take long.
func (a *Applier) Do(ctx context.Context, w *Work, steps []plan.Step) (err error) {
	r := w.Memory.run
	if r == nil || len(r.jobs) == 0 {
		for _, n := range plan.Announce(steps, *w.Actual) {
			w.Notify(n)
		}
		r = &run{Applier: a, rules: map[int]string{}}
		w.Memory.run = r
	}
	r.Work, r.known, r.made = w, w.Actual, map[string][]string{}
	before := len(w.Done)
	if err := w.RecordServing(ctx, false); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, w.RecordServing(ctx, false))
		for _, n := range plan.Moves(w.Done[before:], w.Subject) {
			w.Notify(n)
		}
	}()
	for len(steps) > 0 {
		n := slices.IndexFunc(steps, func(s plan.Step) bool { return s.Wave != steps[0].Wave })
		if n < 0 {
			n = len(steps)
		}
		if err := r.wave(ctx, steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
	}
	return nil
}

// wave does the actions of a wave. Those that have to wait for a job which takes long are left to the next sync, and with them
// the waves that follow.
func (r *run) wave(ctx context.Context, steps []plan.Step) error {
	var err error
	r.left = 0
	for _, s := range steps {
		klog.V(2).InfoS("Load balancer action", "service", r.Service.Key(), "action", s.Label())
		if err = r.start(ctx, s); err != nil {
			err = fmt.Errorf("%s: %w", s.Label(), err)
			break
		}
	}
	if plan.Running(err) != nil {
		r.left, err = cmp.Or(r.left, lookAgain), nil
	}
	err = errors.Join(err, r.finish(ctx, func(*job) bool { return true }))
	for _, j := range r.jobs {
		if !j.parked {
			j.parked, r.left = true, cmp.Or(r.left, lookAgain)
		}
	}
	if err == nil && r.left > 0 {
		return r.Memory.waiting(r.left)
	}
	return err
}

// start submits one action, after what it has to wait for, see busy. One that still has to wait is left.
func (r *run) start(ctx context.Context, s plan.Step) error {
	if a := r.on(s); s.ACLID == "" && s.Kind != plan.AllocateAddress && !s.Internal && a != nil {
		s.AddressID = a.ID // the actions of a new address do not know it
	}
	r.touch(s)
	busy := func(j *job) bool { return r.busy(s, j) }
	outdated := slices.ContainsFunc(r.jobs, func(j *job) bool { return j.parked && busy(j) })
	if err := r.finish(ctx, busy); err != nil {
		return err
	}
	if outdated && !slices.ContainsFunc(r.jobs, busy) { // a job ended after the plan was made
		r.left = planAgain
		return nil
	}
	withoutRule := s.OnRule() && s.Kind != plan.CreateRule && r.ruleID(s) == "" // its creation was left
	if withoutRule || slices.ContainsFunc(r.jobs, busy) {
		r.left = cmp.Or(r.left, lookAgain)
		return nil
	}
	if !s.Internal || s.Resource() != plan.ResourceRule {
		return r.call(ctx, s)
	}

	// Another Service may have a port of the address, and a job that still runs.
	known, _ := r.internal.Load(r.on(s).ID)
	if other, ok := known.(*job); ok && other.over.Err() == nil && r.Clock.Since(other.submitted) < deletionGrace {
		r.left = deletionPause
		return nil
	}
	n := len(r.jobs)
	err := r.call(ctx, s)
	if err == nil && len(r.jobs) > n {
		r.watch(ctx, r.jobs[n:])
		r.internal.Store(r.on(s).ID, r.jobs[n])
	}
	return err
}

// finish waits for jobs, as long as the sync may, and lets those that succeeded take effect.
func (r *run) finish(ctx context.Context, which func(*job) bool) error {
	these := slices.DeleteFunc(slices.Clone(r.jobs), func(j *job) bool { return !which(j) })
	these = r.await(ctx, these)
	r.jobs = slices.DeleteFunc(r.jobs, func(j *job) bool { return slices.Contains(these, j) })
	var errs []error
	for _, j := range these {
		err := j.err
		j.stop()
		r.touch(j.step)
		switch {
		case j.ended != nil:
			err = j.ended(err)
		case err == nil:
			r.effect(j.step, j.outcome)
			err = r.proveRanges(ctx, j)
		}
		if plan.Running(err) != nil {
			r.left = cmp.Or(r.left, lookAgain)
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.step.Label(), err))
		}
	}
	return errors.Join(errs...)
}

// unproven reports whether a new rule would let everybody in if the server ignored its source ranges, as CloudStack before 4.18
// does, and it is not known that it does not.
func (r *run) unproven(s plan.Step) bool {
	restricted := len(s.Rule.CIDRs) > 0 && !annotation.SameRanges(s.Rule.CIDRs, []string{annotation.Anyone})
	proven, _ := r.Role.Has(r.Project, plan.AbilityCIDRs, time.Time{})
	return s.Kind == plan.CreateRule && r.Desired.CIDRsDecide && restricted && !proven
}

// proveRanges reads a rule back before it gets members, if that is needed to know that the server took its source ranges.
func (r *run) proveRanges(ctx context.Context, j *job) error {
	if !r.unproven(j.step) {
		return nil
	}
	rules, err := r.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: j.outcome.ID, ProjectID: r.Project})
	switch {
	case err != nil:
		return err
	case len(rules) == 0 || len(rules[0].CIDRs) == 0:
		return plan.Refuse(plan.ReasonSourceRanges,
			"CloudStack ignores the source ranges of load balancer rules, as versions before 4.18 do, and the network has no firewall",
			"upgrade CloudStack to 4.18 or newer, or remove the source ranges")
	}
	r.Role.Note(r.Project, plan.AbilityCIDRs, true)
	return nil
}

// watch begins to wait for jobs, all of which have to end before anything goes on.
func (r *run) watch(ctx context.Context, jobs []*job) {
	var due time.Duration
	for _, j := range jobs {
		due = max(due, usually(j.command)-r.Clock.Since(j.submitted))
	}
	for _, j := range jobs {
		if j.over == nil {
			r.follow(ctx, r.Memory, j, cloudstack.Await{Due: &due, Unread: true})
		}
	}
}

// await waits for jobs, as long as the sync may, and returns those that have ended. The polls, which all Services share, show
// which. Then the result of each is read, but for those of rules that this plan created: one list shows all that are active.
func (r *run) await(ctx context.Context, jobs []*job) []*job {
	r.watch(ctx, jobs)
	r.waitFor(ctx, jobs)
	jobs = slices.DeleteFunc(jobs, func(j *job) bool { return !j.ready() })
	active := r.active(ctx, jobs)
	var waits sync.WaitGroup
	for _, j := range jobs {
		if j.err == nil && j.result == nil && !slices.Contains(active, j.rule) {
			waits.Go(func() { _, j.err = r.API.Result(ctx, j.command, j.id) })
		}
	}
	waits.Wait()
	return jobs
}

// active returns the ids of rules that the router has, if jobs gave two or more new rules their members: a rule is active when it
// was created and its members were added.
func (r *run) active(ctx context.Context, jobs []*job) (ids []string) {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.step.Kind != plan.AddMembers || j.step.ItemID != "" })
	if len(jobs) < 2 {
		return nil
	}
	list, err := r.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: r.on(jobs[0].step).ID, ProjectID: r.Project})
	for i := range list {
		if made := slices.ContainsFunc(jobs, func(j *job) bool { return j.rule == list[i].ID }); made && list[i].State == plan.StateActive && err == nil {
			ids = append(ids, list[i].ID)
		}
	}
	return ids
}

// usually is how long a command's job takes where the router answers at once. Jobs that take longer are polled for.
func usually(command string) time.Duration {
	switch command {
	case cmdAssociate, cmdCreateTags, "deleteTags", "createLoadBalancerRule", "createFirewallRule", "deleteFirewallRule", "createNetworkACL", "deleteNetworkACL":
		return 50 * time.Millisecond
	}
	return 200 * time.Millisecond
}
