// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// A release removes the rules of its address. The server's job breaks when another job deletes one of them meanwhile, so
// that a release waits for deletions that still run: those whose answer was lost, and those of the process before this
// one. Deletions whose job is known have ended by then.

const (
	cmdDisassociate = "disassociateIpAddress"
	// underWayGrace bounds the wait: what a restarted server left in state Deleting never ends by itself.
	underWayGrace = 30 * time.Second
	// underWayPause is the time between two looks.
	underWayPause = 2 * time.Second
	// releaseTries is how often a release is sent whose job broke on a deletion.
	releaseTries = 3
	// textRuleGone is what the server's job ends with: it asks a rule that was deleted meanwhile for its network.
	textRuleGone = `LoadBalancerVO.getNetworkId()" because "lb" is null`
)

// underWay returns a *WaitError while something still runs in CloudStack that breaks one of the releases. It decides
// by the proving read that comes before every release.
func (r *Reconciler) underWay(t *task, actions []Action) error {
	now := r.options.Clock.Now()
	for _, act := range actions {
		if act.Kind != ReleaseAddress {
			continue
		}
		a := t.mem.actual.find(act.AddressID)
		if a == nil {
			continue
		}
		asked := t.mem.releasing[a.ID]
		if a.State == stateReleasing && now.Sub(asked) < underWayGrace {
			return &WaitError{Message: "waiting for the release of address " + a.IP + ", whose answer was lost", After: underWayPause}
		}
		if !slices.ContainsFunc(a.Rules, func(rule ActualRule) bool { return rule.State == stateDeleting }) {
			delete(t.mem.deleting, a.ID)
			continue
		}
		since, seen := t.mem.deleting[a.ID]
		if !seen {
			since = now
			t.mem.deleting[a.ID] = now
		}
		if now.Sub(since) < underWayGrace {
			return &WaitError{Message: "waiting for rules of address " + a.IP + " that CloudStack is still deleting, before the address is released", After: underWayPause}
		}
	}
	return nil
}

// releaseFailed handles the failure of a release's job. One that broke on a deletion is sent again at once: that
// deletion has ended.
func (ap *applier) releaseFailed(ctx context.Context, act Action, err error) error {
	for try := 1; err != nil && ruleGone(err); try++ {
		if try == releaseTries {
			err = errors.Join(err, &WaitError{Message: "rules of address " + act.IP + " are still being deleted", After: underWayPause})
			break
		}
		var s cloudstack.Submitted
		if s, err = ap.r.api.DisassociateIP(ctx, act.AddressID); err == nil {
			_, err = ap.r.api.Wait(ctx, cmdDisassociate, s.JobID)
		}
	}
	if cloudstack.IsKind(err, cloudstack.KindJobFailed) {
		ap.t.mem.releasing[act.AddressID] = time.Time{} // it has ended
	}
	return err
}

// ruleGone recognises the failure of a release in whose course another job deleted a rule.
func ruleGone(err error) bool {
	e, ok := errors.AsType[*cloudstack.Error](err)
	return ok && e.Kind == cloudstack.KindJobFailed && strings.Contains(e.Text, textRuleGone)
}

// released notes that an address is free.
func (ap *applier) released(ctx context.Context, act Action) error {
	delete(ap.t.mem.releasing, act.AddressID)
	delete(ap.t.mem.deleting, act.AddressID)
	ap.t.dropRecord(act.AddressID)
	ap.r.options.Released()
	ap.t.notify(Notice{Reason: ReasonAddressReleased, Message: "released address " + act.IP})
	return ap.r.save(ctx, ap.t)
}
