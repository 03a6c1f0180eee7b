// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pace decides when a call to CloudStack may be sent: by a rate, or by the server's own limit.
package pace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Limiter lets calls through as its meter allows. When calls have to wait, their flows take turns: each call is let
// through after at most one call of every other flow and those of its own flow that came before it.
//
// It has no goroutine of its own: one of the waiting callers, the leader, keeps the timer.
type Limiter struct {
	clock clock.Clock

	mu     sync.Mutex
	meter  meter
	flows  map[string]*flow // with waiting calls
	order  []*flow          // of turns
	leader *turnWaiter
}

// meter counts calls.
type meter interface {
	// delay is how long it takes until another call may be sent: none at 0 or below, never if until a call has been
	// answered.
	delay(now time.Time) time.Duration
	take(now time.Time)
	// giveBack undoes a take: the call was not sent.
	giveBack()
	// answered is told when a call has ended.
	answered(now time.Time)
	// String says what the limit is.
	String() string
	// every is the time between two calls at the rate.
	every() time.Duration
}

const never time.Duration = 1<<63 - 1

type flow struct {
	name    string
	waiting []*turnWaiter
}

type turnWaiter struct {
	flow    *flow
	granted bool
	woken   chan struct{} // capacity 1: it was granted, or has to look at the meter again
}

// Fixed returns a Limiter that lets through rate calls a second, and burst at once.
func Fixed(rate float64, burst int, c clock.Clock) *Limiter {
	return newLimiter(newBucket(rate, burst), c)
}

func newLimiter(m meter, c clock.Clock) *Limiter {
	return &Limiter{clock: c, meter: m, flows: map[string]*flow{}}
}

// Wait returns when a call of the flow may be sent, or with an error when ctx has ended, or would surely end before.
// done must be called when the call has been answered.
func (l *Limiter) Wait(ctx context.Context, name string) (done func(), err error) {
	if err := l.wait(ctx, name); err != nil {
		return nil, err
	}
	return l.done, nil
}

// String says what the limit is.
func (l *Limiter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.String()
}

// Now takes a call into account that is sent in any case.
func (l *Limiter) Now() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meter.take(l.clock.Now())
	return l.done
}

func (l *Limiter) done() {
	l.change(func(now time.Time) { l.meter.answered(now) })
}

// change changes the meter, and lets calls through that may be sent now.
func (l *Limiter) change(do func(now time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	do(now)
	l.grant(now)
	if l.leader != nil {
		l.leader.wake() // its timer may be too late now
	}
}

func (l *Limiter) wait(ctx context.Context, name string) error {
	l.mu.Lock()
	now := l.clock.Now()
	if len(l.order) == 0 && l.meter.delay(now) <= 0 {
		l.meter.take(now)
		l.mu.Unlock()
		return nil
	}
	if d := l.soonest(now, name); !InTime(ctx, d) {
		l.mu.Unlock()
		return TooLong(d)
	}
	w := l.join(name)
	l.grant(now)
	for !w.granted {
		var timer clock.Timer
		var due <-chan time.Time // nil unless leader
		if d := l.meter.delay(now); l.leader == w && d != never {
			timer = l.clock.NewTimer(d)
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

// soonest is the least time that a new call of a flow waits, if no other comes.
func (l *Limiter) soonest(now time.Time, name string) time.Duration {
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
	d := l.meter.delay(now)
	if d == never {
		d = 0
	}
	return d + time.Duration(before)*l.meter.every()
}

func (l *Limiter) join(name string) *turnWaiter {
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
func (l *Limiter) grant(now time.Time) {
	for len(l.order) > 0 && l.meter.delay(now) <= 0 {
		l.meter.take(now)
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
func (l *Limiter) leave(w *turnWaiter) {
	f := w.flow
	f.waiting = slices.DeleteFunc(f.waiting, func(x *turnWaiter) bool { return x == w })
	if len(f.waiting) == 0 {
		delete(l.flows, f.name)
		l.order = slices.DeleteFunc(l.order, func(x *flow) bool { return x == f })
	}
}

// cancel gives back the place of a call, or its token.
func (l *Limiter) cancel(w *turnWaiter) {
	if w.granted {
		l.meter.giveBack()
		return
	}
	l.leave(w)
}

// handOver makes the call whose turn is next the leader, if a leader goes.
func (l *Limiter) handOver(w *turnWaiter) {
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

// InTime reports whether ctx lasts for d.
func InTime(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= d
}

// TooLong is the error of a wait that is longer than the caller's context.
func TooLong(d time.Duration) error {
	return fmt.Errorf("would have to wait %s: %w", d.Round(time.Millisecond), context.DeadlineExceeded)
}
