// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

const (
	defaultTries = 5 // of one call
	// internalTries is how often a read is sent if the server answers with 530, a code for transient and permanent
	// failures alike. The number is low because some of these reads always fail.
	internalTries = 4
	backoffBase   = 200 * time.Millisecond
	backoffMax    = 5 * time.Second
	// maxPause is the longest pause of a client after one 429.
	maxPause = 60 * time.Second
)

// Constants of an automatic rate limit.
const (
	// atOnce is how many calls may be in progress at once.
	atOnce = 10
	// freeRate is the number of calls per second to a server without a limit, unknownRate that to a server whose limit
	// is not known.
	freeRate, unknownRate = 100, 10
	// knownFor is how long a limit that the server has reported is used before it is queried again.
	knownFor = time.Hour
	// askAgain is the pause after a failed query of the limit.
	askAgain = 10 * time.Second
	// recovery is how long the rate takes to return to its full value after the server refused calls.
	recovery = time.Minute
)

// limiter lets calls through at a rate, in the order in which they came.
type limiter struct {
	clock   clock.Clock
	calls   *rate.Limiter
	first   chan struct{} // capacity 1: a lock held by the call that is first in the queue
	waiting atomic.Int32

	// The following fields are only used for an automatic limit.
	running chan struct{} // calls in progress; nil for a fixed rate
	mu      sync.Mutex
	limit   *Capabilities // the server's; nil while it is not known
	full    rate.Limit    // the rate while the server refuses no calls
	changed time.Time     // when refusals last changed the rate; in the future until the server's pause is over
	askAt   time.Time     // earliest time of the next query of the server's limit
}

// newLimiter returns the limiter for a configuration, or nil if calls are not limited.
func newLimiter(cfg *Config, c clock.Clock) *limiter {
	l := &limiter{clock: c, first: make(chan struct{}, 1)}
	switch {
	case cfg.RateLimit == cloudconfig.AutoRate:
		l.running, l.full = make(chan struct{}, atOnce), unknownRate
		l.calls = rate.NewLimiter(unknownRate, unknownRate)
	case cfg.RateLimit > 0:
		l.calls = rate.NewLimiter(rate.Limit(cfg.RateLimit), cmp.Or(cfg.RateBurst, max(1, int(2*cfg.RateLimit))))
	default:
		return nil
	}
	return l
}

// wait returns when a call may be sent. It fails if ctx has ended, or will certainly end before that. done must be
// called when the call has been answered.
func (l *limiter) wait(ctx context.Context) (done func(), err error) {
	ahead := l.waiting.Add(1) - 1
	defer l.waiting.Add(-1)

	lacking := float64(ahead) - l.calls.TokensAt(l.clock.Now())
	if soonest := time.Duration(lacking / float64(l.calls.Limit()) * float64(time.Second)); !inTime(ctx, soonest) {
		return nil, tooLong(soonest)
	}

	select {
	case l.first <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.first }()

	if l.running != nil {
		select {
		case l.running <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		l.recover()
	}

	now := l.clock.Now()
	reservation := l.calls.ReserveN(now, 1)
	if err := sleep(ctx, l.clock, reservation.DelayFrom(now)); err != nil {
		reservation.CancelAt(l.clock.Now())
		l.done()
		return nil, err
	}

	return l.done, nil
}

func (l *limiter) done() {
	if l.running != nil {
		<-l.running
	}
}

// follow adopts the limit that the server has reported. It returns the rate, and whether the limit has changed. Burst
// and rate together stay below 95% of the allowed calls in every interval, no matter when the server's interval begins.
func (l *limiter) follow(says Capabilities) (full rate.Limit, changed bool) {
	if l.running == nil {
		return 0, false
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	l.askAt = now.Add(knownFor)
	if l.limit != nil && *l.limit == says {
		return l.full, false
	}

	burst := atOnce
	l.limit, l.full = &says, freeRate
	if says.RateMax > 0 && says.RateInterval > 0 {
		burst = max(1, says.RateMax/20)
		l.full = rate.Limit(0.9 * float64(says.RateMax) / says.RateInterval.Seconds())
	}

	l.calls.SetLimitAt(now, l.full)
	l.calls.SetBurstAt(now, burst)
	for range unknownRate {
		l.calls.ReserveN(now, 1) // the server has already counted the calls of the last second
	}

	return l.full, true
}

// throttled lowers the rate after a 429, only once for all calls that the server refuses until its pause is over.
func (l *limiter) throttled(pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if l.running == nil || now.Before(l.changed) {
		return
	}
	l.changed = now.Add(pause)
	l.calls.SetLimitAt(now, max(l.calls.Limit()/2, l.full/20))
	l.calls.SetBurstAt(now, 1)
	if l.limit != nil && l.limit.RateMax == 0 {
		l.askAt = now // it has a limit now
	}
}

// recover raises the rate in proportion to the time since the last refusal.
func (l *limiter) recover() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if since := now.Sub(l.changed); since >= time.Second && l.calls.Limit() < l.full {
		l.changed = now
		l.calls.SetLimitAt(now, min(l.full, l.calls.Limit()+l.full*rate.Limit(since.Seconds()/recovery.Seconds())))
	}
}

// asks reports whether the caller should query the server's limit: it is unknown and calls are being delayed.
func (l *limiter) asks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if l.running == nil || now.Before(l.askAt) || l.waiting.Load() == 0 && l.calls.TokensAt(now) >= 1 {
		return false
	}
	l.askAt = now.Add(askAgain)
	return true
}

// WithRateLimitLog makes the client call f with a description of its own rate limit when it has learnt the server's.
func WithRateLimitLog(f func(limit string)) Option { return func(c *Client) { c.said = f } }

// askingLimit is the context key of the call that queries the server's limit. That call does not wait for the limiter.
type askingLimit struct{}

// admit waits until the server's own pause (429) is over and the rate limit has room. It fails if ctx ends first or
// would certainly do so. done must be called when the call has been answered.
func (c *Client) admit(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	for {
		now := c.clock.Now()
		c.mu.Lock()
		d := c.pausedUntil.Sub(now)
		c.mu.Unlock()
		if d <= 0 {
			break
		}
		// Jitter spreads the calls that wait, so that they do not all start at the same time.
		if err := sleep(ctx, c.clock, d+c.jitter(min(d/10, time.Second))); err != nil {
			return nil, err
		}
	}

	if c.limiter == nil || ctx.Value(askingLimit{}) != nil {
		return func() {}, nil
	}

	if c.limiter.asks() {
		// If the role may not query the limit, assume none until the server refuses a call. Other errors can be ignored
		// here, because the next call would fail as well.
		if _, err := c.Capabilities(context.WithValue(ctx, askingLimit{}, true)); IsKind(err, KindNotPermitted) {
			c.follow(&Capabilities{})
		}
	}

	return c.limiter.wait(ctx)
}

// follow adapts the rate limit to the server's.
func (c *Client) follow(says *Capabilities) {
	if c.limiter == nil {
		return
	}
	full, changed := c.limiter.follow(*says)
	if !changed || c.said == nil {
		return
	}
	allows := "names no limit"
	if says.RateMax > 0 {
		allows = fmt.Sprintf("allows the account %d in %s", says.RateMax, says.RateInterval)
	}
	c.said(fmt.Sprintf("auto: at most %.3g calls per second and %d at once; the server %s", float64(full), atOnce,
		allows))
}

// throttled holds back all calls after a 429.
func (c *Client) throttled(after time.Duration) {
	if c.limiter != nil {
		c.limiter.throttled(after)
	}
	until := c.clock.Now().Add(min(after, maxPause))
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.pausedUntil) {
		c.pausedUntil = until
	}
}

// retryDelay returns full jitter over an exponentially growing limit. After a 429 that names a delay, admit waits.
func (c *Client) retryDelay(try int, res result) time.Duration {
	if res.throttled > 0 {
		return 0
	}
	return c.jitter(min(backoffMax, backoffBase<<(try-1)))
}

// sleep waits for d or until ctx ends. It fails at once if ctx's deadline is before the end of the wait.
func sleep(ctx context.Context, cl clock.Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	if !inTime(ctx, d) {
		return tooLong(d)
	}
	t := cl.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// inTime reports whether ctx will not end before d has passed.
func inTime(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || d <= 0 || time.Until(deadline) >= d
}

// tooLong returns the error for a wait that would be longer than the caller's context.
func tooLong(d time.Duration) error {
	return fmt.Errorf("would have to wait %s: %w", d.Round(time.Millisecond), context.DeadlineExceeded)
}
