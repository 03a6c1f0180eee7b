// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// RowLocks are the database locks that create phases take on the row of an address or an account. A lock has one
// holder at a time. CloudStack retries every 5 s; with retry 0, a waiter continues as soon as the lock is released.
type RowLocks struct {
	clock clock.Clock
	retry time.Duration

	mu     sync.Mutex
	locked map[string]chan struct{} // closed on release
}

// NewRowLocks returns row locks that are all free.
func NewRowLocks(c clock.Clock, retry time.Duration) *RowLocks {
	return &RowLocks{clock: c, retry: retry, locked: map[string]chan struct{}{}}
}

// Acquire waits for the lock and returns a function that releases it.
func (l *RowLocks) Acquire(ctx context.Context, key string) (release func(), err error) {
	for {
		l.mu.Lock()
		freed, taken := l.locked[key]
		if !taken {
			done := make(chan struct{})
			l.locked[key] = done
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.locked, key)
				l.mu.Unlock()
				close(done)
			}, nil
		}

		l.mu.Unlock()
		if l.retry > 0 {
			if err := Sleep(ctx, l.clock, l.retry); err != nil {
				return nil, err
			}
			continue
		}

		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Sleep waits until d has passed on the injected clock, or until ctx ends.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
