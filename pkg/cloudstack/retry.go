// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

const (
	defaultTries = 5 // of one call
	backoffBase  = 200 * time.Millisecond
	backoffMax   = 5 * time.Second
	// maxPause bounds what a 429 can make a client wait at once.
	maxPause = 60 * time.Second
)

// waitTurn waits until the server's own pause (429) is over and the rate limit
// has room. It fails when ctx ends first, or surely would.
func (c *Client) waitTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
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
			return err
		}
	}
	if c.limiter == nil {
		return nil
	}
	now := c.clock.Now()
	r := c.limiter.ReserveN(now, 1)
	if !r.OK() {
		return errors.New("the rate limit lets no call through")
	}
	d := r.DelayFrom(now)
	if d <= 0 {
		return nil
	}
	if err := c.sleep(ctx, d); err != nil {
		r.CancelAt(c.clock.Now())
		return err
	}
	return nil
}

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
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("would have to wait %s: %w", d.Round(time.Millisecond), context.DeadlineExceeded)
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

// tlsReason says what may be wrong; an authority helps only where none is known.
func tlsReason(err error) string {
	var (
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired or is not valid yet, or the clock here is wrong"
	case errors.As(err, &host):
		return "it is for another host name than api-url's"
	case errors.As(err, &record):
		return "there is none: the server does not speak TLS at this port, api-url may have to begin with http://"
	}
	return "ca-file or ssl-no-verify may be needed"
}

// isTLSError tells that the peer's certificate or protocol was refused; that does not pass with time.
func isTLSError(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		unknown      x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
	)
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &host) ||
		errors.As(err, &invalid) || errors.As(err, &record)
}
