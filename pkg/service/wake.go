// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/tenancy"
)

// This file wakes waiting Services.

// Recovered ends the waits of Services after transient failures, because CloudStack answers again.
func (c *Controller) Recovered() {
	now := c.Clock.Now()
	c.wake(0, func(s *state) bool {
		s.upkeep.until = now
		waits := s.retry.waiting() && s.retry.kind <= byAnswer
		if waits {
			s.retry.until = now
		}
		return waits || s.upkeep.waiting()
	})
}

// Retry ends the waits of all Services after failures, for example when the API keys were replaced: the new keys may
// have access to other projects.
func (c *Controller) Retry() {
	c.projects.RemoveAll(func(any) bool { return true })
	c.wake(0, func(s *state) bool {
		failed := s.retry.waiting()
		s.retry, s.upkeep = retry{}, retry{}
		return failed
	})
}

// wake adds the chosen Services to the queue.
func (c *Controller) wake(after time.Duration, chosen func(*state) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range ordered(maps.Keys(c.states)) {
		if chosen(c.states[k]) {
			c.queue.AddAfter(k, after)
		}
	}
}

// tryNext syncs one of the Services that wait for an address or port of others and that were not tried since one became
// free. Services for which CloudStack had no address come first, then those that were refused; among these, the one
// that has waited longest. Each attempt calls tryNext at its end, so that the next Service is tried. freed means that
// an address or port has just become free.
func (c *Controller) tryNext(freed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	if freed {
		c.freedAt = now
	}

	for k, r := c.waiter(); r != nil; k, r = c.waiter() {
		if soon := r.last.Add(early.base); soon.Before(r.until) {
			if !c.budgets.of(k.Namespace, now).AllowN(now, 1) {
				// The budget of the namespace is used up. Without this check, Services could get more attempts by
				// freeing addresses.
				r.began = now
				continue
			}
			r.until = soon
		}
		c.queue.AddAfter(k, r.until.Sub(now))
		return
	}
}

// admit records that a Service shares its addresses with more namespaces, and reports whether a Service waits for that.
// The caller holds the controller's lock.
func (c *Controller) admit(by *version, namespaces []string) (waits bool) {
	if len(namespaces) == 0 {
		return false
	}
	for k, s := range c.states {
		asks := s.retry.kind == byOthers &&
			s.version != nil &&
			(by.names(s.spec.Address) || slices.Contains(by.id.StatusIPs, s.spec.Address))
		if asks && (slices.Contains(namespaces, k.Namespace) || slices.Contains(namespaces, tenancy.Everybody)) {
			s.admitted, waits = c.Clock.Now(), true
		}
	}
	return waits
}

// waiter returns the Service that tryNext should sync, and its retry; nil if there is none. The caller holds the
// controller's lock.
func (c *Controller) waiter() (first Key, found *retry) {
	for k, s := range c.states {
		r := &s.retry
		if r.kind != byOthers || !r.began.Before(c.freedAt) && !r.began.Before(s.admitted) {
			continue
		}
		if found == nil || r.aheadOf(found) || !found.aheadOf(r) && k.UID < first.UID {
			first, found = k, r
		}
	}
	return first, found
}
