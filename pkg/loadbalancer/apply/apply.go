// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply does plans: it makes an action's call, waits for its job, and changes the model as CloudStack changed.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Do does a plan: wave after wave, within a wave submitting ahead and then
// waiting for all its jobs. It stops at the first failure, after the jobs
// under way have ended, and leaves the rest to the next sync.
func (a *Applier) Do(ctx context.Context, w *Work, steps []plan.Step) (err error) {
	for _, n := range plan.Announce(steps, *w.Actual) {
		w.Notify(n)
	}
	r := &run{Applier: a, Work: w, rules: map[int]string{}, made: map[string][]string{}}
	if err := w.RecordServing(ctx, false); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, w.RecordServing(ctx, false))
		for _, n := range plan.Moves(r.moved, w.Subject) {
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

func (r *run) wave(ctx context.Context, steps []plan.Step) error {
	var err error
	for _, s := range steps {
		r.Log(s.Label())
		if err = r.start(ctx, s); err != nil {
			err = fmt.Errorf("%s: %w", s.Label(), err)
			break
		}
	}
	return errors.Join(err, r.finish(ctx, func(*job) bool { return true }))
}

// start submits one action, after what works on the same rule: two changes of one rule at once fail. Only adding the
// members of a rule may go along with its creation.
//
// A firewall rule is submitted when the job of the one before on its address has ended: CloudStack would wait for 5 s.
//
// Ports of an internal address are made and deleted one by one: two deletions at once leave the balancer's VM and the
// address taken, and every later creation on the address fails (533).
func (r *run) start(ctx context.Context, s plan.Step) error {
	r.touch(s)
	rule := r.ruleID(s)
	err := r.finish(ctx, func(j *job) bool {
		joins := j.step.Kind == plan.CreateRule && s.Kind == plan.AddMembers
		return s.Internal && s.Resource() == plan.ResourceRule || s.Makes() == plan.ResourceFirewall && j.step.Makes() == plan.ResourceFirewall || rule != "" && j.rule == rule && !joins
	})
	if err != nil {
		return err
	}
	return r.call(ctx, s)
}

// finish waits for jobs and lets those that succeeded take effect.
func (r *run) finish(ctx context.Context, which func(*job) bool) error {
	var errs []error
	var these, rest []*job
	for _, j := range r.jobs {
		if which(j) {
			these = append(these, j)
		} else {
			rest = append(rest, j)
		}
	}
	outcomes := r.await(ctx, these)
	for i, j := range these {
		err := outcomes[i]
		r.touch(j.step)
		switch {
		case j.ended != nil:
			err = j.ended(err)
		case err == nil:
			r.effect(j.step, j.outcome)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.step.Label(), err))
		}
	}
	r.jobs = rest
	return errors.Join(errs...)
}

// await waits until jobs have ended, and returns the error of each. The polls, which all Services share, show which have ended.
// Then the result of each is read, but for those of rules that this plan created: one list shows all that are active.
func (r *run) await(ctx context.Context, jobs []*job) []error {
	errs, unread := make([]error, len(jobs)), make([]bool, len(jobs))
	var due time.Duration // nothing goes on before all have ended
	for _, j := range jobs {
		due = max(due, usually(j.command)-r.Clock.Since(j.submitted))
	}
	var waits sync.WaitGroup
	for i, j := range jobs {
		waits.Go(func() {
			ended, err := r.API.Await(ctx, cloudstack.Await{Command: j.command, JobID: j.id, Age: r.Clock.Since(j.submitted), Due: &due, Unread: true})
			errs[i], unread[i] = err, err == nil && ended == nil
		})
	}
	waits.Wait()
	active := r.active(ctx, jobs)
	for i, j := range jobs {
		if unread[i] && !slices.Contains(active, j.rule) {
			waits.Go(func() { _, errs[i] = r.API.Result(ctx, j.command, j.id) })
		}
	}
	waits.Wait()
	return errs
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
