// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/cloudstack/internal/pace"
)

// WithRateLimitLog makes the client call f when it has learnt the server's limit, with what its own limit is now.
func WithRateLimitLog(f func(limit string)) Option { return func(c *Client) { c.said = f } }

// limit makes the limiter that the configuration asks for.
func (c *Client) limit(cfg *Config) {
	switch {
	case cfg.RateLimit == cloudconfig.AutoRate:
		c.auto = pace.NewAuto(c.clock)
		c.limiter = c.auto.Limiter
	case cfg.RateLimit > 0:
		burst := cfg.RateBurst
		if burst <= 0 {
			burst = max(1, int(2*cfg.RateLimit))
		}
		c.limiter = pace.Fixed(cfg.RateLimit, burst, c.clock)
	}
}

// RateLimit says what the client's rate limit is.
func (c *Client) RateLimit() string {
	if c.auto != nil {
		return c.auto.String()
	}
	if c.limiter != nil {
		return c.limiter.String()
	}
	return "none"
}

// askingLimit is the key of a context whose call asks for the server's limit: all others wait for it.
type askingLimit struct{}

// waitTurn waits until the server's own pause (429) is over and the rate limit has room. It fails when ctx ends first,
// or surely would. done must be called when the call has been answered.
func (c *Client) waitTurn(ctx context.Context) (done func(), err error) {
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
	if c.auto != nil {
		c.auto.Ask(func() error { return c.askLimit(ctx) })
	}
	return c.limiter.Wait(ctx, flowOf(ctx))
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
	if c.auto == nil {
		return
	}
	if limit := (pace.Limit{Max: says.RateMax, Interval: says.RateInterval}); c.auto.Follow(limit) && c.said != nil {
		c.said(c.auto.String())
	}
}

// throttled is told of a 429.
func (c *Client) throttled(after time.Duration) {
	c.pause(after)
	if c.auto != nil {
		c.auto.Throttled(after)
	}
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
