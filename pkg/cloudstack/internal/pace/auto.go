// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Bounds of Auto.
const (
	// InFlight is how many calls may be under way at once.
	InFlight = 10
	// MaxRate is the number of calls a second to a server without a limit.
	MaxRate = 100
	// unknownRate is the number of calls a second while the server's limit is not known.
	unknownRate = 10
	// knownFor is how long a limit that the server has named is taken for true.
	knownFor = time.Hour
	// askAgain is the pause after a failed question for the limit.
	askAgain = 10 * time.Second
	// maxWindow bounds what the delay of a 429 can make of the window.
	maxWindow = time.Minute
)

// Limit is the server's limit: Max calls of an account in each Interval. The zero value is no limit.
type Limit struct {
	Max      int
	Interval time.Duration
}

// Auto is a Limiter that follows the server's limit.
type Auto struct {
	*Limiter
	window *window
	asking atomic.Bool
}

// NewAuto returns an Auto that does not know the server's limit yet.
func NewAuto(c clock.Clock) *Auto {
	w := newWindow(unknownRate, time.Second)
	return &Auto{Limiter: newLimiter(w, c), window: w}
}

// Follow takes over the limit that the server has named. It reports whether that was not known.
func (a *Auto) Follow(limit Limit) (changed bool) {
	if limit.Max <= 0 || limit.Interval <= 0 {
		limit = Limit{}
	}
	a.change(func(now time.Time) {
		w := a.window
		w.refused, w.askAt = false, now.Add(knownFor)
		if w.known && limit == w.limit {
			return
		}
		changed = true
		w.known, w.limit = true, limit
		if limit.Max > 0 {
			// One in 25 remains for whoever else uses the account.
			w.resize(max(1, limit.Max*24/25), limit.Interval)
		} else {
			w.resize(MaxRate, time.Second)
		}
	})
	return changed
}

// Throttled is told that the server has refused a call, and after what time it wants the next.
func (a *Auto) Throttled(after time.Duration) {
	a.change(func(now time.Time) {
		a.window.cut(now, after)
		if a.window.limit.Max == 0 {
			a.window.refused, a.window.askAt = true, now // it has a limit now
		}
	})
}

// Ask calls question if the server's limit is not known and calls have to wait or were refused. One caller asks at a time.
func (a *Auto) Ask(question func() error) {
	if !a.due() || !a.asking.CompareAndSwap(false, true) {
		return
	}
	defer a.asking.Store(false)
	if a.due() && question() != nil {
		a.change(func(now time.Time) { a.window.askAt = now.Add(askAgain) })
	}
}

func (a *Auto) due() bool {
	a.mu.Lock()
	now := a.clock.Now()
	waits := a.window.refused || len(a.order) > 0 || a.window.delay(now) > 0
	due := waits && !now.Before(a.window.askAt)
	a.mu.Unlock()
	return due
}

// window counts the calls that the server may count in one interval of its own. It counts a call at some time between
// its sending and its answer; so a call is counted here from when it is sent until an interval after its answer. Then no
// interval of the server has more calls than the window, wherever it begins and however long calls take on their way.
type window struct {
	period time.Duration
	max    int // calls in the period
	now    int // of max, as many as the last 429s leave

	running int
	ended   []time.Time // when calls were answered, those of the last period

	changed time.Time // when now was last changed
	known   bool      // whether the server has been asked for its limit
	limit   Limit
	askAt   time.Time // not to be asked before
	refused bool      // a call, since it was asked
}

// String says what the limit is.
func (w *window) String() string {
	inFlight := fmt.Sprintf("and %d at once", InFlight)
	switch {
	case !w.known:
		return fmt.Sprintf("auto: at most %d calls per second %s until the server has named its limit", unknownRate, inFlight)
	case w.limit.Max > 0:
		return fmt.Sprintf("auto: at most %d calls in %s %s; the server allows the account %d", w.max, w.period, inFlight, w.limit.Max)
	}
	return fmt.Sprintf("auto: at most %d calls per second %s; the server names no limit", MaxRate, inFlight)
}

func newWindow(size int, period time.Duration) *window {
	return &window{period: period, max: size, now: size}
}

func (w *window) resize(size int, period time.Duration) { w.max, w.now, w.period = size, size, period }

// cut makes fewer calls fit, once for all calls that one interval of the server refuses.
func (w *window) cut(now time.Time, after time.Duration) {
	if after <= 0 {
		after = w.period
	}
	if now.Before(w.changed) {
		return
	}
	if w.limit.Max == 0 {
		w.period = min(max(w.period, after), maxWindow) // no interval is shorter than what is left of it
	}
	w.expire(now)
	w.now = max(1, min(w.now, w.running+len(w.ended))*7/10)
	w.changed = now.Add(after)
}

// grow makes a few more calls fit for each period without a 429.
func (w *window) grow(now time.Time) {
	for w.now < w.max && !now.Before(w.changed.Add(w.period)) {
		w.now = min(w.max, w.now+max(1, w.max/20))
		w.changed = w.changed.Add(w.period)
	}
}

func (w *window) expire(now time.Time) {
	n := 0
	for n < len(w.ended) && !w.ended[n].After(now.Add(-w.period)) {
		n++
	}
	w.ended = append(w.ended[:0], w.ended[n:]...)
}

func (w *window) delay(now time.Time) time.Duration {
	w.grow(now)
	w.expire(now)
	over := w.running + len(w.ended) - w.now // index of the answer that has to be a period old
	switch {
	case w.running >= InFlight, over >= len(w.ended):
		return never
	case over < 0:
		return 0
	}
	return w.ended[over].Add(w.period).Sub(now)
}

func (w *window) take(time.Time) { w.running++ }
func (w *window) giveBack()      { w.running-- }

func (w *window) answered(now time.Time) {
	w.running--
	w.ended = append(w.ended, now)
}

func (w *window) every() time.Duration { return w.period / time.Duration(w.now) }
