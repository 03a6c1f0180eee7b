// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"
	"time"

	"golang.org/x/time/rate"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
)

// Each namespace has a budget for changes of Services by their owners. Otherwise one namespace could keep CloudStack
// busy. The budget counts calls that change CloudStack. Syncs that are caused by Nodes, drift or clean-ups are not the
// owner's changes and do not count.
//
// A rollout fits into the budget: 200 new Services with two ports each need about 1,600 calls. Beyond that, a namespace
// gets five calls a second, which is about as fast as CloudStack changes the rules of one address.
const (
	changesAtOnce    = 2000
	changesPerMinute = 300
)

// budgets are the budgets by namespace. The caller holds the controller's lock.
type budgets map[string]*rate.Limiter

// of returns the budget of a namespace. Full budgets are removed, because a new one is full as well.
func (p budgets) of(namespace string, now time.Time) *rate.Limiter {
	if p[namespace] == nil {
		maps.DeleteFunc(p, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= changesAtOnce })
		p[namespace] = rate.NewLimiter(changesPerMinute/60.0, changesAtOnce)
	}
	return p[namespace]
}

// changed reports whether the owner's request differs from that of the last sync.
func (w *work) changed() bool {
	s := w.state
	// After a restart there is no last sync to compare with. A Service that was reconciled before is not charged.
	resumed := s.asked == "" && apimeta.IsStatusConditionTrue(w.svc.Status.Conditions, ConditionReady)
	return !w.absent && s.asked != w.asked && !resumed
}

// budgetWait returns how long a change by the owner has to wait. A Service waits only once in its namespace, however
// often it is changed meanwhile. The caller holds the controller's lock.
func (c *Controller) budgetWait(w *work, now time.Time) time.Duration {
	s := w.state
	if !w.changed() {
		return 0
	}
	if s.budgetAt.IsZero() {
		s.budgetAt = now.Add(c.budgets.of(w.key.Namespace, now).ReserveN(now, 1).DelayFrom(now))
	}
	if w.overBudget = s.budgetAt.After(now); w.overBudget {
		return s.budgetAt.Sub(now)
	}
	s.budgetAt = time.Time{}
	return 0
}

// charge takes the calls for an owner's change from the budget.
func (c *Controller) charge(w *work) {
	if w.first && w.Done > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := c.Clock.Now()
		c.budgets.of(w.key.Namespace, now).ReserveN(now, min(w.Done, changesAtOnce))
	}
}
