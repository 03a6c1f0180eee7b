// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	defer r.lockAddresses(t)()
	ap := &applier{r: r, t: t, rules: map[string]string{}}
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

// lockAddresses makes the task the only submitter on its addresses: two
// creations on one address at once make the server sleep or fail.
func (r *Reconciler) lockAddresses(t *task) (unlock func()) {
	var ids []string
	for i := range t.mem.actual.Addresses {
		ids = append(ids, t.mem.actual.Addresses[i].ID)
	}
	return r.addresses.lock(ids)
}

type applier struct {
	r     *Reconciler
	t     *task
	jobs  []*pendingJob
	rules map[string]string // ids of rules created in this run, by address and port
	again bool
}

// pendingJob is a submitted action.
type pendingJob struct {
	act     Action
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
func (ap *applier) follow(ctx context.Context, act Action, command string, s cloudstack.Submitted) {
	j := &pendingJob{act: act, outcome: Outcome{ID: s.ID}, result: make(chan error, 1)}
	ap.jobs = append(ap.jobs, j)
	go func() {
		_, err := ap.r.api.Wait(ctx, command, s.JobID)
		j.result <- err
	}()
}

func (ap *applier) start(ctx context.Context, act Action) error {
	t, api := ap.t, ap.r.api
	ap.r.options.Log(t.Service.Key(), act.Label)
	if act.AddressID == "" && act.Kind != AllocateAddress {
		act.AddressID = t.mem.actual.find("").ID
	}
	if act.RuleID != "" {
		// Two changes of one rule at once fail.
		if err := ap.finish(ctx, func(j *pendingJob) bool { return j.act.RuleID == act.RuleID }); err != nil {
			return err
		}
	}
	switch act.Kind {
	case AllocateAddress:
		return ap.allocate(ctx, act)
	case RememberAddress:
		t.setRecord(record(t.mem.actual.find(act.AddressID)))
		return ap.local(ctx, act)
	case TagAddress:
		s, err := api.CreateTags(ctx, ResourcePublicIP, []string{act.AddressID}, Tags(t.cluster, t.Service))
		if err != nil {
			return ap.tagOutcome(ctx, act, err)
		}
		ap.follow(ctx, act, "createTags", s)
		return nil
	case CreateRule:
		s, err := api.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: act.Rule.Name, Description: t.Service.Key(), Algorithm: act.Rule.Algorithm, Protocol: act.Rule.Protocol,
			PublicIPID: act.AddressID, PublicPort: act.Rule.PublicPort, PrivatePort: act.Rule.PrivatePort, CIDRs: act.Rule.CIDRs,
		})
		if err != nil {
			return portTaken(err, act)
		}
		ap.rules[ruleKey(act)] = s.ID
		ap.follow(ctx, act, "createLoadBalancerRule", s)
		return nil
	case AddMembers:
		id := act.RuleID
		if id == "" {
			// The rule is there as soon as its creation was answered; its job need not have ended.
			id = ap.rules[ruleKey(act)]
		}
		return ap.submit(ctx, act, "assignToLoadBalancerRule", func() (cloudstack.Submitted, error) { return api.AssignToLoadBalancerRule(ctx, id, act.Members) })
	case RemoveMembers:
		return ap.submit(ctx, act, "removeFromLoadBalancerRule", func() (cloudstack.Submitted, error) {
			return api.RemoveFromLoadBalancerRule(ctx, act.RuleID, act.Members)
		})
	case UpdateRule:
		return ap.submit(ctx, act, "updateLoadBalancerRule", func() (cloudstack.Submitted, error) { return api.UpdateLoadBalancerRule(ctx, updateRequest(act)) })
	case DeleteRule:
		return ap.submitGone(ctx, act, "deleteLoadBalancerRule", func() (cloudstack.Submitted, error) { return api.DeleteLoadBalancerRule(ctx, act.RuleID) })
	case OpenFirewall:
		return ap.submit(ctx, act, "createFirewallRule", func() (cloudstack.Submitted, error) {
			return api.CreateFirewallRule(ctx, cloudstack.CreateFirewallRuleRequest{
				PublicIPID: act.AddressID, Protocol: act.Firewall.Protocol, StartPort: act.Firewall.StartPort, EndPort: act.Firewall.EndPort, CIDRs: act.Firewall.CIDRs,
			})
		})
	case CloseFirewall:
		return ap.submitGone(ctx, act, "deleteFirewallRule", func() (cloudstack.Submitted, error) { return api.DeleteFirewallRule(ctx, act.FirewallID) })
	case ReleaseAddress:
		t.mem.releasing[act.AddressID] = true
		return ap.submit(ctx, act, "disassociateIpAddress", func() (cloudstack.Submitted, error) { return api.DisassociateIP(ctx, act.AddressID) })
	case ForgetAddress:
		return ap.leave(ctx, act)
	default:
		return fmt.Errorf("unknown action %q", act.Kind)
	}
}

func updateRequest(act Action) cloudstack.UpdateLoadBalancerRuleRequest {
	u := cloudstack.UpdateLoadBalancerRuleRequest{ID: act.RuleID, Name: act.Rule.Name, Algorithm: act.Rule.Algorithm, Protocol: act.Rule.Protocol}
	if act.Rule.CIDRs != nil {
		u.CIDRs = &act.Rule.CIDRs
	}
	return u
}

func ruleKey(act Action) string { return fmt.Sprintf("%s:%d", act.AddressID, act.Port) }

func portTaken(err error, act Action) error {
	if !cloudstack.IsKind(err, cloudstack.KindConflict) {
		return err
	}
	refusal := &RefusalError{ReasonPortTaken, fmt.Sprintf("port %d of %s is taken by a rule that is not of this Service", act.Port, act.IP), "delete that rule, or choose another port or address"}
	return errors.Join(refusal, err)
}

func (ap *applier) submit(ctx context.Context, act Action, command string, call func() (cloudstack.Submitted, error)) error {
	s, err := call()
	if err != nil {
		return err
	}
	ap.follow(ctx, act, command, s)
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

func (ap *applier) allocate(ctx context.Context, act Action) error {
	rec, err := ap.r.allocate(ctx, ap.t, act)
	if err != nil {
		return err
	}
	ap.effect(act, Outcome{ID: rec.ID, IP: rec.IP})
	a := ap.t.mem.actual.find(rec.ID)
	a.Tagged = rec.Tagged
	if rec.Tagged {
		a.Owner, a.OwnTags = Mine, TagKeys()
	}
	return nil
}

// local ends an action that only changes the Service's record.
func (ap *applier) local(ctx context.Context, act Action) error {
	if err := ap.r.save(ctx, ap.t); err != nil {
		return err
	}
	ap.effect(act, Outcome{})
	return nil
}

// leave removes our tags and record from an address that stays.
func (ap *applier) leave(ctx context.Context, act Action) error {
	a := ap.t.mem.actual.find(act.AddressID)
	if a.Owner == Mine && len(a.OwnTags) > 0 {
		s, err := ap.r.api.DeleteTags(ctx, ResourcePublicIP, []string{act.AddressID}, a.OwnTags)
		if err == nil {
			_, err = ap.r.api.Wait(ctx, "deleteTags", s.JobID)
		}
		if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return err
		}
	}
	ap.t.dropRecord(act.AddressID)
	ap.t.notify(Notice{Reason: ReasonAddressKept, Message: "address " + act.IP + " is kept: " + act.Note})
	return ap.local(ctx, act)
}

// tagOutcome ends TagAddress. Tags that the role refuses are done without.
func (ap *applier) tagOutcome(ctx context.Context, act Action, err error) error {
	if !ap.r.tagged(ap.t, err) {
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			return nil
		}
		return err
	}
	ap.effect(act, Outcome{})
	ap.t.setRecord(record(ap.t.mem.actual.find(act.AddressID)))
	return ap.r.save(ctx, ap.t)
}

// ended handles the end of a job.
func (ap *applier) ended(ctx context.Context, j *pendingJob, err error) error {
	if j.act.Kind == TagAddress {
		return ap.tagOutcome(ctx, j.act, err)
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
		delete(ap.t.mem.releasing, j.act.AddressID)
		ap.t.dropRecord(j.act.AddressID)
		ap.t.notify(Notice{Reason: ReasonAddressReleased, Message: "released address " + j.act.IP})
		return ap.r.save(ctx, ap.t)
	case UpdateRule:
		if j.act.Rule.CIDRs != nil && !ap.r.cidrUpdateProven.Load() {
			ap.again = true
			if ap.t.updatedCIDRs == nil {
				ap.t.updatedCIDRs = map[string][]string{}
			}
			ap.t.updatedCIDRs[j.act.RuleID] = j.act.Rule.CIDRs
		}
	case CreateRule:
		if len(j.act.Replaces) > 0 {
			ap.t.notify(Notice{Reason: ReasonRuleReplaced, Message: fmt.Sprintf("replaced the rule of port %d on %s: it could not be changed in place", j.act.Port, j.act.IP)})
		}
	default:
	}
	return nil
}

// effect changes the memory as CloudStack changed.
func (ap *applier) effect(act Action, out Outcome) {
	t := ap.t
	t.mem.actual.effect(act, out)
	switch act.Kind {
	case DeleteRule:
		delete(t.mem.members, act.RuleID)
	case CreateRule, AddMembers, RemoveMembers:
		addr := t.mem.actual.find(act.AddressID)
		for _, rule := range addr.ownRules() {
			if rule.PublicPort == act.Port {
				t.mem.members[rule.ID] = memberRead{vms: rule.Members, at: ap.r.options.Clock.Now()}
			}
		}
	default:
	}
}
