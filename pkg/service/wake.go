// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/tenancy"
)

// Services that wait are woken here.

// Recovered ends the waits of Services after failures that pass: CloudStack answers again.
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

// Retry ends the wait of all Services after failures, as when the keys of the API were replaced: these may show other
// projects.
func (c *Controller) Retry() {
	c.projects.RemoveAll(func(any) bool { return true })
	c.wake(0, func(s *state) bool {
		failed := s.retry.waiting()
		s.retry, s.upkeep = retry{}, retry{}
		return failed
	})
}

// wake puts the Services into the queue that are chosen of those that are remembered.
func (c *Controller) wake(after time.Duration, chosen func(*state) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range ordered(maps.Keys(c.states)) {
		if chosen(c.states[k]) {
			c.queue.AddAfter(k, after)
		}
	}
}

// tryNext tries a Service again of those that wait for what others have and were not tried since something became free.
// First come those for which CloudStack had no address, then those that were refused; of both the one that waits
// longest. It is called when an attempt has ended: then the next is tried. freed means that something has just become
// free.
func (c *Controller) tryNext(freed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	if freed {
		c.freedAt = now
	}

	for k, r := c.waiter(); r != nil; k, r = c.waiter() {
		if soon := r.last.Add(early.base); soon.Before(r.until) {
			if !c.pace.of(k.Namespace, now).AllowN(now, 1) {
				// the namespace has used up its budget, or Services that free something would buy attempts
				r.began = now
				continue
			}
			r.until = soon
		}
		c.queue.AddAfter(k, r.until.Sub(now))
		return
	}
}

// admit notes that a Service shares its addresses with more namespaces, and reports whether a Service waits for that.
// The controller's lock is held.
func (c *Controller) admit(by *version, namespaces []string) (waits bool) {
	if len(namespaces) == 0 {
		return false
	}
	for k, s := range c.states {
		asks := s.retry.kind == byOthers &&
			s.content != nil &&
			(by.names(s.spec.Address) || slices.Contains(by.statusIPs, s.spec.Address))
		if asks && (slices.Contains(namespaces, k.Namespace) || slices.Contains(namespaces, tenancy.Everybody)) {
			s.admitted, waits = c.Clock.Now(), true
		}
	}
	return waits
}

// waiter returns the Service that tryNext tries, and its wait; nil for none. The controller's lock is held.
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
