// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// fairLimiter lets through rate calls a second and burst at once. When calls have to wait, their flows take turns: each
// call is let through after at most one call of every other flow and those of its own flow that came before it.
//
// It has no goroutine of its own: one of the waiting callers, the leader, keeps the timer.
type fairLimiter struct {
	clock    clock.Clock
	interval time.Duration // between two calls at the rate
	burst    int

	mu sync.Mutex
	// full is when all tokens are there again. Each call that is let through moves it by one interval.
	full   time.Time
	flows  map[string]*flow // with waiting calls
	order  []*flow          // of turns
	leader *turnWaiter
}

type flow struct {
	name    string
	waiting []*turnWaiter
}

type turnWaiter struct {
	flow    *flow
	granted bool
	woken   chan struct{} // capacity 1: it was granted, or is the leader now
}

func newFairLimiter(rate float64, burst int, c clock.Clock) *fairLimiter {
	// Rounded up, so that the rate is never exceeded.
	return &fairLimiter{clock: c, interval: time.Duration(math.Ceil(float64(time.Second) / rate)), burst: burst, flows: map[string]*flow{}}
}

// wait returns when a call of the flow may be made, or with an error when ctx has ended, or would surely end before.
func (l *fairLimiter) wait(ctx context.Context, name string) error {
	l.mu.Lock()
	now := l.clock.Now()
	if len(l.order) == 0 && l.delay(now) <= 0 {
		l.take(now)
		l.mu.Unlock()
		return nil
	}
	if d := l.soonest(now, name); !inTime(ctx, d) {
		l.mu.Unlock()
		return tooLong(d)
	}
	w := l.join(name)
	l.grant(now)
	for !w.granted {
		var timer clock.Timer
		var due <-chan time.Time // nil unless leader
		if l.leader == w {
			timer = l.clock.NewTimer(l.delay(now))
			due = timer.C()
		}
		l.mu.Unlock()
		var err error
		select {
		case <-w.woken:
		case <-due:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if timer != nil {
			timer.Stop()
		}
		l.mu.Lock()
		now = l.clock.Now()
		if err != nil {
			l.cancel(w)
			l.grant(now)
			l.handOver(w)
			l.mu.Unlock()
			return err
		}
		l.grant(now)
	}
	l.handOver(w)
	l.mu.Unlock()
	return nil
}

// delay is how long it takes until there is a token.
func (l *fairLimiter) delay(now time.Time) time.Duration {
	return max(0, l.full.Sub(now)) - time.Duration(l.burst-1)*l.interval
}

func (l *fairLimiter) take(now time.Time) {
	if l.full.Before(now) {
		l.full = now
	}
	l.full = l.full.Add(l.interval)
}

// soonest is the least time that a new call of a flow waits, if no other comes.
func (l *fairLimiter) soonest(now time.Time, name string) time.Duration {
	own := 0
	if f := l.flows[name]; f != nil {
		own = len(f.waiting)
	}
	before := own
	for _, f := range l.order {
		if f.name != name {
			before += min(len(f.waiting), own)
		}
	}
	return l.delay(now) + time.Duration(before)*l.interval
}

func (l *fairLimiter) join(name string) *turnWaiter {
	f := l.flows[name]
	if f == nil {
		f = &flow{name: name}
		l.flows[name] = f
		l.order = append(l.order, f)
	}
	w := &turnWaiter{flow: f, woken: make(chan struct{}, 1)}
	f.waiting = append(f.waiting, w)
	if l.leader == nil {
		l.leader = w
	}
	return w
}

// grant lets through as many waiting calls as there are tokens, one of each flow in turn.
func (l *fairLimiter) grant(now time.Time) {
	for len(l.order) > 0 && l.delay(now) <= 0 {
		l.take(now)
		f := l.order[0]
		w := f.waiting[0]
		w.granted = true
		l.leave(w)
		if len(f.waiting) > 0 { // its next turn is after that of all others
			l.order = append(l.order[1:], f)
		}
		w.wake()
	}
}

// leave takes a call out of its flow, and a flow without calls out of the order.
func (l *fairLimiter) leave(w *turnWaiter) {
	f := w.flow
	f.waiting = slices.DeleteFunc(f.waiting, func(x *turnWaiter) bool { return x == w })
	if len(f.waiting) == 0 {
		delete(l.flows, f.name)
		l.order = slices.DeleteFunc(l.order, func(x *flow) bool { return x == f })
	}
}

// cancel gives back the place of a call, or its token.
func (l *fairLimiter) cancel(w *turnWaiter) {
	if w.granted {
		l.full = l.full.Add(-l.interval)
		return
	}
	l.leave(w)
}

// handOver makes the call whose turn is next the leader, if a leader goes.
func (l *fairLimiter) handOver(w *turnWaiter) {
	if l.leader != w {
		return
	}
	l.leader = nil
	if len(l.order) > 0 {
		l.leader = l.order[0].waiting[0]
		l.leader.wake()
	}
}

func (w *turnWaiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// inTime reports whether ctx lasts for d.
func inTime(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= d
}

func tooLong(d time.Duration) error {
	return fmt.Errorf("would have to wait %s: %w", d.Round(time.Millisecond), context.DeadlineExceeded)
}

type flowKey struct{}

// WithFlow makes calls with this context count for a flow, such as a namespace. When the rate limit makes calls wait,
// the flows take turns: many calls of one do not hold up a single call of another. Calls without a flow share one.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

func flowOf(ctx context.Context) string {
	flow, _ := ctx.Value(flowKey{}).(string)
	return flow
}
