// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// apply does a plan: wave after wave, within a wave submitting ahead and then
// waiting for all its jobs. It stops at the first failure, after the jobs
// under way have ended, and leaves the rest to the next sync. again asks for
// another look, because something has to be verified.
func (r *Reconciler) apply(ctx context.Context, t *task, actions []Action) (again bool, err error) {
	actions = r.options.Policy.Filter(actions)
	if len(actions) == 0 {
		return false, nil
	}
	if err := r.lock(ctx, t); err != nil {
		return false, err
	}
	defer t.release()
	for _, n := range interruptions(actions, *t.mem.actual) {
		t.notify(n) // before it happens
	}
	ap := &applier{r: r, t: t, rules: map[int]string{}}
	for len(actions) > 0 && err == nil {
		wave := actions[0].Wave
		n := slices.IndexFunc(actions, func(a Action) bool { return a.Wave != wave })
		if n < 0 {
			n = len(actions)
		}
		err = ap.wave(ctx, actions[:n])
		actions = actions[n:]
	}
	return ap.again, err
}

type applier struct {
	r     *Reconciler
	t     *task
	jobs  []*pendingJob
	rules map[int]string // ids of rules created in this run, by port
	again bool
}

// pendingJob is a submitted action.
type pendingJob struct {
	act     Action
	rule    string // id of the rule that it works on
	outcome Outcome
	result  chan error
}

func (ap *applier) wave(ctx context.Context, actions []Action) error {
	var err error
	for i := range actions {
		if err = ap.start(ctx, actions[i]); err != nil {
			err = fmt.Errorf("%s: %w", actions[i].Label, err)
			break
		}
	}
	return errors.Join(err, ap.finish(ctx, func(*pendingJob) bool { return true }))
}

// finish waits for jobs and lets those that succeeded take effect on the memory.
func (ap *applier) finish(ctx context.Context, which func(*pendingJob) bool) error {
	var errs []error
	rest := ap.jobs[:0:0]
	for _, j := range ap.jobs {
		if !which(j) {
			rest = append(rest, j)
			continue
		}
		if err := ap.ended(ctx, j, <-j.result); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.act.Label, err))
		}
	}
	ap.jobs = rest
	return errors.Join(errs...)
}

// follow waits for a job beside the submission of others: all waits share the client's polls.
func (ap *applier) follow(ctx context.Context, act Action, command string, s cloudstack.Submitted, out Outcome) {
	out.ID = s.ID
	j := &pendingJob{act: act, rule: ap.ruleID(act), outcome: out, result: make(chan error, 1)}
	ap.jobs = append(ap.jobs, j)
	go func() {
		_, err := ap.r.api.Wait(ctx, command, s.JobID)
		j.result <- err
	}()
}

// ruleID is the id of an action's rule; that of a rule made in this run is known as soon as its creation was
// answered, and its job need not have ended.
func (ap *applier) ruleID(act Action) string {
	if act.RuleID != "" || act.Port == 0 {
		return act.RuleID
	}
	return ap.rules[act.Port]
}

// clear waits for what works on the same rule: two changes of one rule at once fail. Only adding the members
// of a rule may go along with its creation.
//
// Ports of an internal address are made and deleted one by one: two deletions at once leave the balancer's VM and the
// address taken, and every later creation on the address fails (533).
func (ap *applier) clear(ctx context.Context, act Action) error {
	if act.Internal && (act.Kind == CreateRule || act.Kind == DeleteRule) {
		return ap.finish(ctx, func(*pendingJob) bool { return true })
	}
	rule := ap.ruleID(act)
	if rule == "" {
		return nil
	}
	return ap.finish(ctx, func(j *pendingJob) bool {
		return j.rule == rule && (j.act.Kind != CreateRule || act.Kind != AddMembers)
	})
}

func (ap *applier) submit(ctx context.Context, act Action, command string, call func() (cloudstack.Submitted, error)) error {
	s, err := call()
	if err != nil {
		return err
	}
	ap.follow(ctx, act, command, s, Outcome{})
	return nil
}

// submitGone is submit for deletions: what is gone needs none.
func (ap *applier) submitGone(ctx context.Context, act Action, command string, call func() (cloudstack.Submitted, error)) error {
	err := ap.submit(ctx, act, command, call)
	if cloudstack.IsNotFound(err) {
		ap.effect(act, Outcome{})
		return nil
	}
	return err
}

// ended handles the end of a job.
func (ap *applier) ended(ctx context.Context, j *pendingJob, err error) error {
	ap.r.touch(j.act.AddressID)
	if j.act.Kind == TagAddress || j.act.Kind == TagRules {
		return ap.tagOutcome(ctx, j.act, err)
	}
	if err != nil && j.act.Kind == ReleaseAddress {
		err = ap.releaseFailed(ctx, j.act, err)
	}
	if err != nil {
		if j.act.Kind == UpdateRule && j.act.Rule.CIDRs != nil && cloudstack.IsKind(err, cloudstack.KindJobFailed) && !ap.r.cidrUpdateProven.Load() {
			ap.r.noCIDRUpdate.Store(true) // the next sync replaces the rule instead
		}
		return err
	}
	ap.effect(j.act, j.outcome)
	switch j.act.Kind {
	case ReleaseAddress:
		return ap.released(ctx, j.act)
	case UpdateRule:
		if j.act.Rule.CIDRs != nil && !ap.r.cidrUpdateProven.Load() {
			ap.readBack(j.act.RuleID, j.act.Rule, false)
		}
	case CreateRule:
		if len(j.act.Replaces) > 0 {
			ap.t.notify(Notice{Reason: ReasonRuleReplaced, Message: fmt.Sprintf("replaced the rule of port %d on %s: it could not be changed in place", j.act.Port, j.act.IP)})
		}
		if ap.t.wanted.CIDRsDecide && !ap.r.cidrsProven.Load() && !sameRanges(j.act.Rule.CIDRs, []string{annotation.Anyone}) {
			ap.readBack(j.outcome.ID, j.act.Rule, true)
		}
	case OpenFirewall, OpenACL:
		if len(j.act.Replaces) > 0 {
			ap.t.notify(Notice{Reason: ReasonBriefInterruption, Message: portsText(*j.act.Firewall) + " was closed for a moment for " + strings.Join(j.act.Firewall.CIDRs, ",") +
				": its old rule let in more than it may now, and CloudStack could not have both"})
		}
	default:
	}
	return nil
}

// readBack asks for a look at whether the server took a rule's source ranges.
func (ap *applier) readBack(id string, rule *Rule, created bool) {
	ap.again = true
	ap.t.writtenCIDRs[id] = rule.CIDRs
	ap.t.created[id] = created
}

// effect changes the memory as CloudStack changed.
func (ap *applier) effect(act Action, out Outcome) {
	t := ap.t
	t.mem.actual.effect(act, out)
	if act.Kind != RememberAddress {
		t.done++
	}
	now := ap.r.options.Clock.Now()
	addr := t.mem.actual.find(act.AddressID)
	if act.Kind == DeleteRule {
		delete(t.mem.members, act.RuleID)
		delete(t.mem.extras, act.RuleID)
	}
	if addr == nil {
		return
	}
	switch act.Kind {
	case CreateRule, UpdateRule, AddMembers, RemoveMembers, SetStickiness, DropStickiness, BindCertificate:
		rule := addr.rule(act)
		if rule == nil {
			return
		}
		t.mem.members[rule.ID] = memberRead{vms: rule.Members, at: now}
		t.mem.extras[rule.ID] = extraRead{stickiness: rule.Stickiness, policyID: rule.PolicyID, certificate: rule.Certificate, at: memberRead{at: now}}
	default:
	}
}
