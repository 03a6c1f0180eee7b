// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// RowLocks are the database locks that create phases take on the row of an
// address or an account. A real server's waiter sleeps 5 s between tries; with
// retry 0 a waiter goes on as soon as the lock is free, still one at a time.
type RowLocks struct {
	clock clock.Clock
	retry time.Duration

	mu   sync.Mutex
	held map[string]chan struct{} // closed on release
}

func NewRowLocks(c clock.Clock, retry time.Duration) *RowLocks {
	return &RowLocks{clock: c, retry: retry, held: map[string]chan struct{}{}}
}

// Acquire waits for the lock and returns how to release it.
func (l *RowLocks) Acquire(ctx context.Context, key string) (release func(), err error) {
	for {
		l.mu.Lock()
		freed, taken := l.held[key]
		if !taken {
			done := make(chan struct{})
			l.held[key] = done
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.held, key)
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

// Sleep waits on the injected clock.
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
