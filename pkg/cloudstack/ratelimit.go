// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/cloudstack/internal/ratelimit"
)

const (
	defaultTries = 5 // of one call
	// internalTries is how often a read is sent that the server answers with 530. The code does not tell whether the
	// failure is one in passing; a read that fails for good costs little this way.
	internalTries = 4
	backoffBase   = 200 * time.Millisecond
	backoffMax    = 5 * time.Second
	// maxPause bounds what a 429 can make a client wait at once.
	maxPause = 60 * time.Second
)

// WithRateLimitLog makes the client call f when it has learnt the server's limit, with what its own limit is now.
func WithRateLimitLog(f func(limit string)) Option { return func(c *Client) { c.said = f } }

// limit makes the limiter that the configuration asks for.
func (c *Client) limit(cfg *Config) {
	switch {
	case cfg.RateLimit == cloudconfig.AutoRate:
		c.limiter = ratelimit.NewAuto(c.clock)
	case cfg.RateLimit > 0:
		burst := cfg.RateBurst
		if burst <= 0 {
			burst = max(1, int(2*cfg.RateLimit))
		}
		c.limiter = ratelimit.Fixed(cfg.RateLimit, burst, c.clock)
	}
}

// RateLimit says what the client's rate limit is.
func (c *Client) RateLimit() string {
	if c.limiter == nil {
		return "none"
	}
	return c.limiter.String()
}

// askingLimit is the key of a context whose call asks for the server's limit: all others wait for it.
type askingLimit struct{}

// admit waits until the server's own pause (429) is over and the rate limit has room. It fails when ctx ends first,
// or surely would. done must be called when the call has been answered.
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
		// A little apart, so that waiting calls do not all start at once.
		if err := c.sleep(ctx, d+c.jitter(min(d/10, time.Second))); err != nil {
			return nil, err
		}
	}
	if c.limiter == nil {
		return func() {}, nil
	}
	if ctx.Value(askingLimit{}) != nil {
		return c.limiter.Now(), nil
	}
	c.limiter.Ask(func() error { return c.askLimit(ctx) })
	return c.limiter.Wait(ctx)
}

// askLimit asks the server for its limit. A role that may not ask has none until the server refuses a call.
func (c *Client) askLimit(ctx context.Context) error {
	_, err := c.Capabilities(context.WithValue(ctx, askingLimit{}, true))
	if IsKind(err, KindNotPermitted) {
		c.follow(&Capabilities{})
		return nil
	}
	return err
}

// follow adapts the rate limit to the server's.
func (c *Client) follow(says *Capabilities) {
	limit := ratelimit.Limit{Max: says.RateMax, Interval: says.RateInterval}
	if c.limiter != nil && c.limiter.Follow(limit) && c.said != nil {
		c.said(c.limiter.String())
	}
}

// throttled holds back all calls after a 429.
func (c *Client) throttled(after time.Duration) {
	if c.limiter != nil {
		c.limiter.Throttled(after)
	}
	until := c.clock.Now().Add(min(after, maxPause))
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.pausedUntil) {
		c.pausedUntil = until
	}
}

// retryDelay is full jitter over an exponentially growing limit. After a 429
// with a delay the pause does the waiting.
func (c *Client) retryDelay(try int, res result) time.Duration {
	if res.throttled > 0 {
		return 0
	}
	limit := backoffMax
	if try < 6 {
		limit = min(limit, backoffBase<<(try-1))
	}
	return c.jitter(limit)
}

// sleep waits for d or the end of ctx; a wait that ctx's deadline cuts short is not begun.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	if !ratelimit.InTime(ctx, d) {
		return ratelimit.TooLong(d)
	}
	t := c.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
