// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// A release removes the rules of its address. The server's job fails if another job deletes one of these rules
// meanwhile. So a release waits for deletions that may still be running: those whose answer was lost, and those of an
// earlier process. Deletions with a known job have ended before the release is submitted.

const (
	cmdDisassociate = "disassociateIpAddress"
	// deletionGrace limits the wait: after a restart of the server, an item may stay in state Deleting forever.
	deletionGrace = 30 * time.Second
	// deletionPause is the time between two reads.
	deletionPause = 2 * time.Second
	// textRuleDeleted is part of the error of a release whose job used a rule that another job had deleted.
	textRuleDeleted = `LoadBalancerVO.getNetworkId()" because "lb" is null`
)

// DeletionsRunning returns a *plan.WaitError while something is still running in CloudStack that would break one of the
// releases. It uses the read that has proven the release.
func (m *Memory) DeletionsRunning(steps []plan.Step, actual plan.Actual, now time.Time) error {
	var deleting error
	for _, s := range steps {
		switch a := actual.Find(s.AddressID); {
		case s.Kind != plan.ReleaseAddress || a == nil:
		case a.State == plan.StateReleasing: // the address is released together with its rules
			if now.Sub(m.Releasing[a.ID]) < deletionGrace {
				return &plan.WaitError{
					Message: "waiting for the release of address " + a.IP + ", whose answer was lost",
					After:   deletionPause,
				}
			}

		case slices.ContainsFunc(a.Rules, func(rule plan.Item) bool { return rule.Deleting }):
			deleting = &plan.WaitError{
				Message: "waiting for rules of address " + a.IP +
					" that CloudStack is still deleting, before the address is released",
				After: deletionPause,
			}
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

func (w *Work) releaseAddress(ctx context.Context, s plan.Step) error {
	w.Releasing[s.AddressID] = w.Clock.Now()
	submitted, err := w.API.Client.DisassociateIP(ctx, s.AddressID)
	if err != nil {
		return err
	}
	w.note(s, submitted)
	return nil
}

// released completes a release. A release whose job failed is never repeated without a new read: somebody else may use
// the address by now.
func (w *Work) released(ctx context.Context, s plan.Step, err error) error {
	if cloudstack.IsKind(err, cloudstack.KindJobFailed) {
		w.Releasing[s.AddressID] = time.Time{} // the release is no longer running
	}
	switch {
	case err == nil:
	case cloudstack.IsKind(err, cloudstack.KindJobFailed) && strings.Contains(err.Error(), textRuleDeleted):
		w.Again = true // the deletion that broke the release has ended
		return nil
	default:
		return err
	}

	w.effect(s, plan.Outcome{})
	delete(w.Releasing, s.AddressID)
	w.deleting = time.Time{}
	w.deleteRecord(s.AddressID)
	w.Freed = true
	w.Notify(plan.Notice{Reason: plan.ReasonAddressReleased, Message: "released address " + s.IP})
	return w.save(ctx, false)
}

// disown removes our tags and the record of an address that is not released. If other Services continue to use the
// address, the tags that show its acquisition and its first owner remain, so that the last of these Services can
// release it. If the address is kept, a tag names the Service that keeps it.
func (w *Work) disown(ctx context.Context, s plan.Step) error {
	a := w.on(s)
	keys := slices.Clone(a.OwnTags)
	switch {
	case s.HandOver:
		keys = slices.DeleteFunc(keys,
			func(k string) bool { return k != plan.TagServiceUID && (k != plan.TagService || a.Shared) })
	case s.Keep:
		if err := w.tagKeepIP(ctx, a); err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys,
			func(k string) bool { return k == plan.TagCluster || k == plan.TagManagedBy || k == plan.TagKeptBy })
	}

	// The Service that acquired the address left these tags for its guests, and this Service is the last guest.
	removeTags := a.Use.Tagged != "" && a.TaggedUID == "" && a.Keeper == "" && !a.Shared
	if (a.Owner == plan.Owned || removeTags) && len(keys) > 0 && !s.Internal {
		if err := w.untag(ctx, plan.ResourcePublicIP, []string{a.ID}, keys); err != nil {
			return err
		}
	}

	w.deleteRecord(s.AddressID)
	if !s.Internal {
		w.Notify(plan.Notice{Reason: plan.ReasonAddressKept, Message: "address " + s.IP + " is kept: " + s.Note})
	}

	if err := w.save(ctx, false); err != nil {
		return err
	}

	w.effect(s, plan.Outcome{})
	return nil
}
