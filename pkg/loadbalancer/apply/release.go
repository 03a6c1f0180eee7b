// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// A release removes the rules of its address. The server's job breaks when another job deletes one of them meanwhile, so
// that a release waits for deletions that still run: those whose answer was lost, and those of the process before this
// one. Deletions whose job is known have ended by then.

const (
	cmdDisassociate = "disassociateIpAddress"
	// deletionGrace bounds the wait: an item that a restarted server left in state Deleting stays so for ever.
	deletionGrace = 30 * time.Second
	// deletionPause is the time between two reads.
	deletionPause = 2 * time.Second
	// textRuleGone is what the server's job ends with: it asks a rule that was deleted meanwhile for its network.
	textRuleGone = `LoadBalancerVO.getNetworkId()" because "lb" is null`
)

// DeletionsRunning returns a *plan.WaitError while something still runs in CloudStack that breaks one of the releases.
// It decides by the read that proves the release.
func (m *Memory) DeletionsRunning(steps []plan.Step, actual plan.Actual, now time.Time) error {
	var deleting error
	for _, s := range steps {
		switch a := actual.Find(s.AddressID); {
		case s.Kind != plan.ReleaseAddress || a == nil:
		case a.State == plan.StateReleasing: // with its rules
			if now.Sub(m.Releasing[a.ID]) < deletionGrace {
				return &plan.WaitError{Message: "waiting for the release of address " + a.IP + ", whose answer was lost", After: deletionPause}
			}
		case slices.ContainsFunc(a.Rules, func(rule plan.Item) bool { return rule.Deleting }):
			deleting = &plan.WaitError{Message: "waiting for rules of address " + a.IP + " that CloudStack is still deleting, before the address is released", After: deletionPause}
		}
	}
	switch {
	case deleting == nil:
		m.deleting = time.Time{}
	case m.deleting.IsZero():
		m.deleting = now
	case now.Sub(m.deleting) >= deletionGrace:
		return nil
	}
	return deleting
}

func (r *run) releaseAddress(ctx context.Context, s plan.Step) error {
	r.Memory.Releasing[s.AddressID] = r.Clock.Now()
	submitted, err := r.API.Client.DisassociateIP(ctx, s.AddressID)
	if err != nil {
		return err
	}
	r.note(s, cmdDisassociate, submitted).ended = func(err error) error {
		if err != nil {
			return r.releaseFailed(s, err)
		}
		r.effect(s, plan.Outcome{})
		delete(r.Memory.Releasing, s.AddressID)
		r.Memory.deleting = time.Time{}
		r.drop(s.AddressID)
		r.Freed = true
		r.Notify(plan.Notice{Reason: plan.ReasonAddressReleased, Message: "released address " + s.IP})
		return r.save(ctx)
	}
	return nil
}

// releaseFailed ends a release whose job failed. It is never sent again as it is: somebody may use the address by now.
func (r *run) releaseFailed(s plan.Step, err error) error {
	e, ok := errors.AsType[*cloudstack.Error](err)
	if !ok || e.Kind != cloudstack.KindJobFailed {
		return err
	}
	r.Memory.Releasing[s.AddressID] = time.Time{} // it has ended

	if strings.Contains(e.Text, textRuleGone) {
		r.Again = true // that deletion has ended
		return nil
	}
	return err
}

// forget removes our tags and record from an address that stays. What others go on using keeps the marks that the
// cluster acquired it, so that the last of them can release it, and whose it was first. What is kept says who keeps it.
func (r *run) forget(ctx context.Context, s plan.Step) error {
	a := r.on(s)
	keys := slices.Clone(a.OwnTags)
	switch {
	case s.HandOver:
		keys = slices.DeleteFunc(keys, func(k string) bool { return k != plan.TagServiceUID && (k != plan.TagService || a.Shared) })
	case s.Keep:
		if err := r.markKept(ctx, a); err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(k string) bool { return k == plan.TagCluster || k == plan.TagManagedBy || k == plan.TagKeptBy })
	}
	left := a.Claim.Tagged != "" && a.TaggedUID == "" && a.Keeper == "" && !a.Shared // by the owner, for the guests, the last of which goes
	if (a.Owner == plan.Owned || left) && len(keys) > 0 && !s.Internal {
		if err := r.untag(ctx, plan.ResourcePublicIP, []string{a.ID}, keys); err != nil {
			return err
		}
	}
	r.drop(s.AddressID)
	if !s.Internal {
		r.Notify(plan.Notice{Reason: plan.ReasonAddressKept, Message: "address " + s.IP + " is kept: " + s.Note})
	}
	if err := r.save(ctx); err != nil {
		return err
	}
	r.effect(s, plan.Outcome{})
	return nil
}
