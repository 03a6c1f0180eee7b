// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply executes plans: it makes the call of each action, waits for its job, and applies the same change to the
// model.
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

// API gives access to CloudStack.
type API struct {
	observe.Reader
	// Client makes the calls that change something, and waits for their jobs.
	Client *cloudstack.Client
}

// Applier has the dependencies and locks that the syncs of all Services share.
type Applier struct {
	API   API
	Role  *cloudstack.Role
	Clock clock.PassiveClock
	// Touch is called with the id of an address before and after it is written to.
	Touch func(addressID string)

	acls        keyed.Mutex // by network ACL list: new items get their numbers one at a time
	associating keyed.Mutex // by project: concurrent associateIpAddress calls make the server sleep
	internal    sync.Map    // the last *job on each internal address, by address id
}

// Work is one sync of a Service, and its results. Actual and Records change as actions take effect.
type Work struct {
	*Applier
	*plan.Subject
	*Memory
	// Store saves Records on the Service. stored are the records that it has saved last.
	Store  Store
	stored annotation.Records

	// Done are the steps that took effect. Freed means that an address was released.
	Done  []plan.Step
	Freed bool
	// Again means that CloudStack has to be read again.
	Again bool
	// TagErr is why tags could not be set; the Service is served without them.
	TagErr error

	// patience is how much longer the sync may wait for jobs.
	patience   time.Duration
	created    map[string][]string // ids of all items that the plan has created, by their type in createTags
	retryAfter time.Duration       // when to retry the actions of the wave that had to wait; zero if there are none
}

// Begin returns the work of one sync. The records of the subject must be those that are saved on the Service.
func (a *Applier) Begin(subject *plan.Subject, memory *Memory, store Store) *Work {
	return &Work{
		Applier:  a,
		Subject:  subject,
		Memory:   memory,
		Store:    store,
		stored:   subject.Records.Clone(),
		patience: patience,
	}
}

// note records a submitted job. finish waits for it later, when there is nothing left to submit: until then, polling
// would change nothing.
func (w *Work) note(s plan.Step, submitted cloudstack.Submitted) *job {
	if s.Kind == plan.CreateRule {
		w.rules[s.Port] = submitted.ID
	}

	if a := w.on(s); s.ACLID == "" && a != nil {
		s.AddressID = a.ID
	}

	j := &job{
		step:      s,
		rule:      w.ruleID(s),
		command:   submitted.Command,
		id:        submitted.JobID,
		submitted: w.Clock.Now(),
		outcome:   plan.Outcome{ID: submitted.ID},
	}

	if at := slices.IndexFunc(w.jobs, func(other *job) bool { return j.rule != "" && other.rule == j.rule }); at >= 0 {
		j.after = w.jobs[at]
	}

	w.jobs = append(w.jobs, j)
	if kind := s.Makes(); kind != "" {
		w.created[kind] = append(w.created[kind], submitted.ID)
	}

	return j
}

// ruleID returns the id of an action's item. For a new rule it is the id in the answer to its creation, which is known
// before its job has ended.
func (w *Work) ruleID(s plan.Step) string {
	if s.ItemID == "" && s.OnRule() {
		return w.rules[s.Port]
	}
	return s.ItemID
}

// on returns the address that an action works on; nil if there is none.
func (w *Work) on(s plan.Step) *plan.Address { return w.Actual.Find(s.AddressID) }

// touch marks the address of an action as changed, before and after the call.
func (w *Work) touch(s plan.Step) {
	if s.ACLID == "" && s.AddressID != "" {
		w.Touch(s.AddressID)
	}
}

// effect changes the model as the action has changed CloudStack.
func (w *Work) effect(s plan.Step, o plan.Outcome) {
	s.Effect(w.Actual, o)
	w.Done = append(w.Done, s)
}

// Store saves records on the Service. It is no error if the Service no longer exists. With unchanged, it fails if
// anybody has changed the Service since the sync began.
type Store func(ctx context.Context, r annotation.Records, unchanged bool) error

// save saves the records on the Service if they have changed.
func (w *Work) save(ctx context.Context, unchanged bool) error {
	if w.stored.Equal(w.Records) {
		return nil
	}
	if err := w.Store(ctx, w.Records, unchanged); err != nil {
		return fmt.Errorf("record addresses on the Service: %w", err)
	}
	w.stored = w.Records.Clone()
	return nil
}

// record adds the record of an address, or replaces it.
func (w *Work) record(rec annotation.AddressRecord) {
	w.deleteRecord(rec.ID)
	w.Records.Addresses = append(w.Records.Addresses, rec)
}

// deleteRecord removes the record of an address.
func (w *Work) deleteRecord(id string) {
	w.Records.Addresses = slices.DeleteFunc(w.Records.Addresses,
		func(x annotation.AddressRecord) bool { return x.ID == id })
}

func (w *Work) deletePending(jobID string) {
	w.Records.Pending = slices.DeleteFunc(w.Records.Pending,
		func(p annotation.PendingAllocation) bool { return p.JobID == jobID })
}

// RecordServing records the address that serves, and others that the Service has without a record, because somebody has
// removed its records. During a plan, the record contains each port before the port is opened and until it is closed.
// After the plan, when no call that opens a port can still take effect, the record contains only the desired ports, and
// records of addresses that the Service no longer has are removed.
func (w *Work) RecordServing(ctx context.Context, done bool) error {
	w.Records.Addresses = slices.DeleteFunc(w.Records.Addresses, func(rec annotation.AddressRecord) bool {
		a := w.Actual.Find(rec.ID)
		return done && (a == nil || a.Lost)
	})

	if target := plan.Target(w.Desired, *w.Actual); target != nil {
		a := w.Actual.Find(target.ID)
		if done && a.Settled {
			a.RecordedPorts, a.ForwardPorts, a.ForwardTargets = nil, nil, nil
		}

		a.RecordedPorts = w.Desired.Opened().Union(a.RecordedPorts)
		a.ForwardPorts = w.Desired.Forwarded().Union(a.ForwardPorts)
		a.ForwardTargets = w.Desired.Targets().Union(a.ForwardTargets)
		a.HasStickiness = a.HasStickiness || w.Desired.HasStickiness()
		a.Recorded = true
	}

	for _, a := range w.Actual.Addresses {
		if a.Ours() && !a.Lost {
			w.record(a.Record(w.OwnProject, w.Desired.NetworkID))
		}
	}
	return w.save(ctx, false)
}

// Do executes a plan wave by wave. Within a wave it submits actions without waiting, and then waits for all jobs. It
// stops at the first failure, after the running jobs have ended, and leaves the rest to the next sync. It returns a
// *plan.WaitError if jobs of a wave take long.
func (w *Work) Do(ctx context.Context, steps []plan.Step) (err error) {
	if len(w.jobs) == 0 {
		for _, n := range plan.Announce(steps, *w.Actual) {
			w.Notify(n)
		}
		w.rules = map[int]string{}
	}

	w.created = map[string][]string{}
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

		// Others may have begun to use an address during earlier waves, so its release needs another proof.
		releases := func(s plan.Step) bool { return s.Kind == plan.ReleaseAddress }
		if len(w.Done) > before && slices.ContainsFunc(steps[:n], releases) {
			w.Again = true
			return nil
		}

		if err := w.wave(ctx, steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
	}

	return nil
}

// wave executes the actions of a wave. Actions that have to wait for a long-running job are left to the next sync,
// together with the following waves.
func (w *Work) wave(ctx context.Context, steps []plan.Step) error {
	var err error
	w.retryAfter = 0
	for _, s := range steps {
		klog.V(2).InfoS("Load balancer action", "service", w.Service.Key(), "action", s.Label())
		if err = w.start(ctx, s); err != nil {
			err = fmt.Errorf("%s: %w", s.Label(), err)
			break
		}
	}

	if plan.Running(err) != nil {
		w.retryAfter, err = cmp.Or(w.retryAfter, lookAgain), nil
	}

	err = errors.Join(err, w.finish(ctx, func(*job) bool { return true }))
	for _, j := range w.jobs {
		if !j.parked {
			j.parked, w.retryAfter = true, cmp.Or(w.retryAfter, lookAgain)
		}
	}

	if err == nil && w.retryAfter > 0 {
		return cmp.Or(ctx.Err(), w.waiting(w.retryAfter)) //nolint:contextcheck // a job wakes without ctx
	}

	return err
}

// start submits one action, after waiting for the jobs that it depends on, see busy. If it still has to wait, it is
// left to the next sync.
func (w *Work) start(ctx context.Context, s plan.Step) error {
	if a := w.on(s); s.ACLID == "" && s.Kind != plan.AllocateAddress && !s.Internal && a != nil {
		// Steps that were planned for a new address do not have its id yet.
		s.AddressID = a.ID
	}
	w.touch(s)

	busy := func(j *job) bool { return w.busy(s, j) }
	outdated := slices.ContainsFunc(w.jobs, func(j *job) bool { return j.parked && busy(j) })
	if err := w.finish(ctx, busy); err != nil {
		return err
	}
	// A job ended after the plan was made, so the plan may be outdated.
	if outdated && !slices.ContainsFunc(w.jobs, busy) {
		w.retryAfter = planAgain
		return nil
	}

	// The creation of the rule may have been left to the next sync.
	withoutRule := s.OnRule() && s.Kind != plan.CreateRule && w.ruleID(s) == ""
	if withoutRule || slices.ContainsFunc(w.jobs, busy) {
		w.retryAfter = cmp.Or(w.retryAfter, lookAgain)
		return nil
	}

	if !s.Internal || s.Resource() != plan.ResourceRule {
		return w.call(ctx, s)
	}

	// Another Service may have a port of the same address, with a job that is still running.
	known, _ := w.internal.Load(w.on(s).ID)
	if other, ok := known.(*job); ok && !other.ended() && w.Clock.Since(other.submitted) < deletionGrace {
		w.retryAfter = deletionPause
		return nil
	}

	n := len(w.jobs)
	err := w.call(ctx, s)
	if err == nil && len(w.jobs) > n {
		w.watch(ctx, w.jobs[n:])
		w.internal.Store(w.on(s).ID, w.jobs[n])
	}
	return err
}

// finish waits for jobs as long as the sync may, and applies the effects of those that succeeded.
func (w *Work) finish(ctx context.Context, which func(*job) bool) error {
	these := slices.DeleteFunc(slices.Clone(w.jobs), func(j *job) bool { return !which(j) })
	these = w.await(ctx, these)
	w.jobs = slices.DeleteFunc(w.jobs, func(j *job) bool { return slices.Contains(these, j) })

	var errs []error
	for _, j := range these {
		j.detach()
		w.touch(j.step)
		err := w.complete(ctx, j)
		if plan.Running(err) != nil {
			w.retryAfter = cmp.Or(w.retryAfter, lookAgain)
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.step.Label(), err))
		}
	}
	return errors.Join(errs...)
}

// complete completes the action of a job that has ended.
func (w *Work) complete(ctx context.Context, j *job) error {
	switch {
	case j.command == cmdDisassociate:
		return w.released(ctx, j.step, j.err)
	case j.command == cmdCreateTags:
		return w.tagged(ctx, j.step, j.err)
	case j.err != nil:
		return j.err
	}
	w.effect(j.step, j.outcome)
	return w.proveRanges(ctx, j)
}

// unproven reports whether a new rule would admit all sources if the server ignored its source ranges, as CloudStack
// before 4.18 does, and the server is not known to respect them.
func (w *Work) unproven(s plan.Step) bool {
	restricted := len(s.Rule.CIDRs) > 0 && !annotation.SameRanges(s.Rule.CIDRs, []string{annotation.Anyone})
	proven, _ := w.Role.Has(w.Project, plan.AbilityCIDRs, time.Time{})
	return s.Kind == plan.CreateRule && w.Desired.CIDRsDecide && restricted && !proven
}

// proveRanges reads a new rule back before adding members to it, unless the server is known to respect source ranges.
func (w *Work) proveRanges(ctx context.Context, j *job) error {
	if !w.unproven(j.step) {
		return nil
	}

	rules, err := w.API.ListLoadBalancerRules(ctx,
		cloudstack.LoadBalancerRuleQuery{ID: j.outcome.ID, ProjectID: w.Project})
	switch {
	case err != nil:
		return err
	case len(rules) == 0 || len(rules[0].CIDRs) == 0:
		return plan.Refuse(plan.ReasonSourceRanges,
			"CloudStack ignores the source ranges of load balancer rules, as versions before 4.18 do, and the "+
				"network has no firewall",
			"upgrade CloudStack to 4.18 or newer, or remove the source ranges")
	}
	w.Role.Note(w.Project, plan.AbilityCIDRs, true)
	return nil
}

// watch starts to wait for jobs, all of which have to end before the sync continues.
func (w *Work) watch(ctx context.Context, jobs []*job) {
	var due time.Duration
	for _, j := range jobs {
		due = max(due, usually(j.command)-w.Clock.Since(j.submitted))
	}

	for _, j := range jobs {
		if j.followed == nil {
			w.follow(ctx, j, cloudstack.Await{Due: &due, Unread: true})
		}
	}
}

// await waits for jobs as long as the sync may, and returns those that have ended. The poller that all Services share
// reports which ones have. Then the result of each job is read, except for jobs of rules that this plan created: one
// list of rules shows all that are active.
func (w *Work) await(ctx context.Context, jobs []*job) []*job {
	w.watch(ctx, jobs)
	w.waitFor(ctx, jobs)
	jobs = slices.DeleteFunc(jobs, func(j *job) bool { return !j.ready() })

	active := w.active(ctx, jobs)
	var reads sync.WaitGroup
	for _, j := range jobs {
		result, err := j.followed.Result()
		if j.err = err; err == nil && result == nil && !slices.Contains(active, j.rule) {
			reads.Go(func() { _, j.err = w.API.Client.Jobs().Result(ctx, j.command, j.id) })
		}
	}
	reads.Wait()
	return jobs
}

// active returns the ids of rules that the router has, if two or more new rules got members. A rule is active after it
// was created and its members were added.
func (w *Work) active(ctx context.Context, jobs []*job) (ids []string) {
	jobs = slices.DeleteFunc(slices.Clone(jobs),
		func(j *job) bool { return j.step.Kind != plan.AddMembers || j.step.ItemID != "" })
	if len(jobs) < 2 {
		return nil
	}

	list, err := w.API.ListLoadBalancerRules(ctx,
		cloudstack.LoadBalancerRuleQuery{PublicIPID: jobs[0].step.AddressID, ProjectID: w.Project})
	for _, r := range list {
		if created := slices.ContainsFunc(jobs, func(j *job) bool { return j.rule == r.ID }); created &&
			r.State == plan.StateActive &&
			err == nil {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// usually returns how long the job of a command takes if the router answers at once. A job is polled only after that
// time.
func usually(command string) time.Duration {
	switch command {
	case cmdAssociate, cmdCreateTags, "deleteTags", "createLoadBalancerRule", "createFirewallRule",
		"deleteFirewallRule", "createNetworkACL", "deleteNetworkACL":
		return 50 * time.Millisecond
	}
	return 200 * time.Millisecond
}
