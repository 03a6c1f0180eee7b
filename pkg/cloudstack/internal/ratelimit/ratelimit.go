// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ratelimit decides when a call to CloudStack may be sent: by a rate, or by the server's own limit.
package ratelimit

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// InFlight is how many calls an automatic limit lets be under way at once.
	InFlight = 10
	// MaxRate is the number of calls a second to a server without a limit.
	MaxRate = 100
	// unknownRate is the number of calls a second while the server's limit is not known.
	unknownRate = 10
	// knownFor is how long a limit that the server has named is taken for true.
	knownFor = time.Hour
	// askAgain is the pause after a failed question for the limit.
	askAgain = 10 * time.Second
	// maxPeriod bounds what the delay of a 429 can make of the period.
	maxPeriod = time.Minute

	never time.Duration = 1<<63 - 1
)

// Limit is the server's limit: Max calls of an account in each Interval. The zero value is no limit.
type Limit struct {
	Max      int
	Interval time.Duration
}

// Limiter lets calls through in the order in which they came: in each period, wherever it begins, at most so many.
//
// An automatic limiter follows the limit that the server names and its 429s. The server counts a call at some time between
// its sending and its answer; so a call is counted here from when it is sent until a period after its answer, and no
// interval of the server has more calls than allowed, however long calls take on their way.
type Limiter struct {
	clock clock.Clock
	auto  bool
	first chan struct{} // capacity 1; whoever has put something in is the first of those that wait. Go serves them in order.

	mu       sync.Mutex
	waiting  int
	freed    chan struct{} // capacity 1: more calls may fit than before
	period   time.Duration
	max      int         // calls in the period
	now      int         // of max, as many as the last 429s leave
	running  int         // calls of an automatic limiter without an answer
	counted  []time.Time // calls of the last period: when they were answered, or sent under a fixed rate
	adjusted time.Time   // when now was last changed

	known   bool      // whether the server has been asked for its limit
	limit   Limit     // the server's
	askAt   time.Time // not to be asked before
	asking  bool
	refused bool // a call, since the server was asked
}

// Fixed returns a Limiter that lets through burst calls at once, and rate calls a second in the long run.
func Fixed(rate float64, burst int, c clock.Clock) *Limiter {
	l := newLimiter(c)
	l.resize(burst, time.Duration(math.Ceil(float64(burst)*float64(time.Second)/rate))) // rounded up, so that the rate is never exceeded
	return l
}

// NewAuto returns an automatic Limiter that does not know the server's limit yet.
func NewAuto(c clock.Clock) *Limiter {
	l := newLimiter(c)
	l.auto = true
	l.resize(unknownRate, time.Second)
	return l
}

func newLimiter(c clock.Clock) *Limiter {
	return &Limiter{clock: c, first: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
}

func (l *Limiter) resize(size int, period time.Duration) { l.max, l.now, l.period = size, size, period }

// Wait returns when a call may be sent, or with an error when ctx has ended, or would surely end before. done must be called
// when the call has been answered.
func (l *Limiter) Wait(ctx context.Context) (done func(), err error) {
	l.mu.Lock()
	soonest := time.Duration(l.waiting) * l.period / time.Duration(l.now)
	if d := l.delay(); d > 0 && d != never {
		soonest += d
	}
	if soonest > 0 && !InTime(ctx, soonest) {
		l.mu.Unlock()
		return nil, TooLong(soonest)
	}
	l.waiting++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
	}()
	select {
	case l.first <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.first }()
	for {
		l.mu.Lock()
		d := l.delay()
		if d <= 0 {
			l.take()
			l.mu.Unlock()
			return l.done, nil
		}
		l.mu.Unlock()
		if err := l.sleep(ctx, d); err != nil {
			return nil, err
		}
	}
}

// sleep returns after d, or earlier when more calls may fit.
func (l *Limiter) sleep(ctx context.Context, d time.Duration) error {
	var due <-chan time.Time
	if d != never {
		timer := l.clock.NewTimer(d)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-due:
	case <-l.freed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Now counts a call that is sent in any case.
func (l *Limiter) Now() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take()
	return l.done
}

func (l *Limiter) take() {
	if l.auto {
		l.running++
	} else {
		l.counted = append(l.counted, l.clock.Now())
	}
}

func (l *Limiter) done() {
	if l.auto {
		l.change(func(now time.Time) {
			l.running--
			l.counted = append(l.counted, now)
		})
	}
}

// change changes the limit, and wakes the first call that waits.
func (l *Limiter) change(do func(now time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(l.clock.Now())
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// delay is how long it takes until another call fits: not at all at 0 or below, never if until a call has been answered.
func (l *Limiter) delay() time.Duration {
	now := l.clock.Now()
	// A few more calls fit for each period without a 429.
	for l.now < l.max && !now.Before(l.adjusted.Add(l.period)) {
		l.now = min(l.max, l.now+max(1, l.max/20))
		l.adjusted = l.adjusted.Add(l.period)
	}
	l.expire(now)
	over := l.running + len(l.counted) - l.now // index of the call that has to be a period old
	switch {
	case l.running >= InFlight, over >= len(l.counted):
		return never
	case over < 0:
		return 0
	}
	return l.counted[over].Add(l.period).Sub(now)
}

func (l *Limiter) expire(now time.Time) {
	n := 0
	for n < len(l.counted) && !l.counted[n].After(now.Add(-l.period)) {
		n++
	}
	l.counted = append(l.counted[:0], l.counted[n:]...)
}

// Follow takes over the limit that the server has named. It reports whether that was not known.
func (l *Limiter) Follow(limit Limit) (changed bool) {
	if !l.auto {
		return false
	}
	if limit.Max <= 0 || limit.Interval <= 0 {
		limit = Limit{}
	}
	l.change(func(now time.Time) {
		l.refused, l.askAt = false, now.Add(knownFor)
		if l.known && limit == l.limit {
			return
		}
		changed, l.known, l.limit = true, true, limit
		if limit.Max > 0 {
			// One in 25 remains for whoever else uses the account.
			l.resize(max(1, limit.Max*24/25), limit.Interval)
		} else {
			l.resize(MaxRate, time.Second)
		}
	})
	return changed
}

// Throttled records that the server has refused a call, and after what time it wants the next. Fewer calls fit then, once
// for all calls that one interval of the server refuses.
func (l *Limiter) Throttled(after time.Duration) {
	if !l.auto {
		return
	}
	l.change(func(now time.Time) {
		if l.limit.Max == 0 {
			l.refused, l.askAt = true, now // it has a limit now
		}
		if now.Before(l.adjusted) {
			return
		}
		if after <= 0 {
			after = l.period
		}
		if l.limit.Max == 0 {
			l.period = min(max(l.period, after), maxPeriod) // no interval is shorter than what is left of it
		}
		l.expire(now)
		l.now = max(1, min(l.now, l.running+len(l.counted))*7/10)
		l.adjusted = now.Add(after)
	})
}

// Ask calls question if the server's limit is not known and calls have to wait or were refused. One caller asks at a time.
func (l *Limiter) Ask(question func() error) {
	if !l.auto {
		return
	}
	l.mu.Lock()
	waits := l.refused || l.waiting > 0 || l.delay() > 0
	if !waits || l.asking || l.clock.Now().Before(l.askAt) {
		l.mu.Unlock()
		return
	}
	l.asking = true
	l.mu.Unlock()
	err := question()
	l.change(func(now time.Time) {
		l.asking = false
		if err != nil {
			l.askAt = now.Add(askAgain)
		}
	})
}

// String says what the limit is.
func (l *Limiter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	inFlight := fmt.Sprintf("and %d at once", InFlight)
	switch {
	case !l.auto:
		return fmt.Sprintf("%.3g calls per second, %d at once", float64(l.max)/l.period.Seconds(), l.max)
	case !l.known:
		return fmt.Sprintf("auto: at most %d calls per second %s until the server has named its limit", unknownRate, inFlight)
	case l.limit.Max > 0:
		return fmt.Sprintf("auto: at most %d calls in %s %s; the server allows the account %d", l.max, l.period, inFlight, l.limit.Max)
	}
	return fmt.Sprintf("auto: at most %d calls per second %s; the server names no limit", MaxRate, inFlight)
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
