// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"slices"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// observe reads what concerns the Service into the memory.
func (p *Planner) observe(ctx context.Context, t *task, prove bool) error {
	t.read, t.Prove, t.Records = true, prove, t.records.Records
	seen, err := p.observer.Observe(ctx, t.Query)
	if err != nil {
		return err
	}
	if p.limits().LeaveACLs {
		t.Desired.ACLID = ""
	}
	t.mem.actual, t.mem.readAt = &seen.Actual, seen.Begun
	t.proven = t.proven || prove
	return nil
}

// look makes the memory hold the actual state: from memory while that is young, else by reading.
func (p *Planner) look(ctx context.Context, t *task) error {
	// An address that is asked for and not known to be used is looked at closely at once.
	known := func(rec annotation.AddressRecord) bool { return rec.IP == t.Desired.Address }
	t.Survey = t.mem.survey || t.Desired.Address != "" && !t.Desired.Internal && !slices.ContainsFunc(t.records.Addresses, known)
	if t.mem.actual != nil && (p.options.DriftPeriod == 0 || p.options.Clock.Since(t.mem.readAt) < p.options.DriftPeriod) {
		address := t.Desired.Address == "" || plan.Target(t.Desired, *t.mem.actual) != nil
		aclKnown := t.Desired.ACLID == "" || slices.ContainsFunc(t.mem.actual.ACLs, func(l plan.ACL) bool { return l.ListID == t.Desired.ACLID })
		// An address or list that was not looked for before has to be read first.
		if address && aclKnown {
			return nil
		}
	}
	return p.observe(ctx, t, false)
}

// plan plans from memory, and once more from a proving read when something would be released.
func (p *Planner) plan(ctx context.Context, t *task) ([]plan.Step, error) {
	for {
		steps, target := plan.Plan(t.Desired, *t.mem.actual, p.limits())
		if !t.Survey && plan.NeedsSurvey(t.Desired, target) {
			t.Survey = true
			if err := p.observe(ctx, t, false); err != nil {
				return nil, err
			}
			continue
		}
		if refusal := plan.Fits(t.Desired, target, t.network, p.granted(t)); refusal != nil {
			return nil, refusal
		}
		proof := slices.ContainsFunc(steps, func(s plan.Step) bool {
			return plan.Is[plan.ReleaseAddress](s) || plan.Is[plan.ForgetAddress](s)
		})
		if proof && !t.proven {
			if err := p.prove(ctx, t); err != nil {
				return nil, err
			}
			continue
		}
		if fewer, err := p.limitKept(ctx, t, steps); err != nil {
			return nil, err
		} else if fewer {
			continue
		}
		if err := t.mem.changes.DeletionsRunning(steps, *t.mem.actual, p.options.Clock.Now()); err != nil {
			return nil, err
		}
		if t.read {
			t.noteObserved(target, p.limits())
		}
		return steps, nil
	}
}

// granted are the Service's grants.
func (p *Planner) granted(t *task) plan.Grants {
	out := t.grants
	out.SourceNAT = out.SourceNAT || p.unguarded(plan.GuardSourceNAT)
	out.ForeignAddress = out.ForeignAddress || p.unguarded(plan.GuardForeignAddress)
	return out
}

// noteObserved tells the Service's owner what was read that matters to the owner.
func (t *task) noteObserved(target *plan.Address, limits plan.Limits) {
	for _, n := range plan.ForeignAccess(t.Desired, target) {
		t.Notify(n)
	}
	if n := plan.DefaultACL(t.Desired, t.network); n != nil {
		t.Notify(*n)
	}
	for _, n := range plan.ForwardACL(t.Desired, t.network) {
		t.Notify(n)
	}
	if t.Desired.CIDRsDecide && limits.NoCIDRs && !access.Same(t.Desired.Ranges, []string{annotation.Anyone}) && len(t.Desired.Ranges) > 0 {
		t.Notify(plan.Notice{Warning: true, Reason: plan.ReasonRangesNotServed, Message: "this CloudStack (older than 4.18) cannot restrict the sources of a rule, and the network has no firewall: " +
			"the rules have no members, so that nobody is let in who should not be; upgrade CloudStack or remove the source ranges"})
	}
}
