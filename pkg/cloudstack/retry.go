// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack/internal/pace"
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

// pause holds back all calls for d.
func (c *Client) pause(d time.Duration) {
	until := c.clock.Now().Add(min(d, maxPause))
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
	if !pace.InTime(ctx, d) {
		return pace.TooLong(d)
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
