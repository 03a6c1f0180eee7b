// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// flight caches the last complete result of a fetch. Callers that need a newer result share a single call.
//
// A caller that gives up does not cancel the call for the others; the call is cancelled when its last caller
// gives up. An error is returned to the callers that waited for the call and is not cached.
type flight[T any] struct {
	clock clock.PassiveClock
	fetch func(context.Context) (T, error)

	mu    sync.Mutex
	seq   uint64 // number of calls started
	least uint64 // results of calls up to this number are not cached
	last  *call[T]
	calls *call[T] // in flight, or nil
}

// call is a call and its value. The value reflects the server's state at the time when the call started, or later.
type call[T any] struct {
	begun   time.Time
	seq     uint64
	cancel  context.CancelFunc
	waiters int
	done    chan struct{} // closed when value and err are set
	value   T
	err     error
}

func newFlight[T any](c clock.PassiveClock, fetch func(context.Context) (T, error)) *flight[T] {
	return &flight[T]{clock: c, fetch: fetch}
}

// get returns a result whose call started at most maxAge ago. If maxAge is zero or less, the result comes from a call
// that started after get was called.
func (f *flight[T]) get(ctx context.Context, maxAge time.Duration) (*call[T], error) {
	f.mu.Lock()
	oldest, after := f.clock.Now().Add(-maxAge), f.seq
	fresh := func(begun time.Time, seq uint64) bool {
		if maxAge <= 0 {
			return seq > after
		}
		return seq > after || !begun.Before(oldest)
	}

	for {
		if f.last != nil && fresh(f.last.begun, f.last.seq) {
			last := f.last
			f.mu.Unlock()
			return last, nil
		}
		if err := ctx.Err(); err != nil {
			f.mu.Unlock()
			return nil, waitError(err)
		}
		c := f.calls
		if c == nil {
			c = f.start(ctx)
		}
		c.waiters++
		f.mu.Unlock()

		select {
		case <-c.done:
		case <-ctx.Done():
			f.leave(c)
			return nil, waitError(ctx.Err())
		}
		if fresh(c.begun, c.seq) {
			return c, c.err
		}
		f.mu.Lock()
	}
}

// waitError wraps the error of a context as a CloudStack error, so that messages name CloudStack as the cause.
func waitError(err error) error {
	e := &cloudstack.Error{Kind: cloudstack.KindTransient, Text: "no answer in time", Err: err}
	if errors.Is(err, context.Canceled) {
		e.Text = "cancelled"
	}
	return e
}

// start starts a call, which ctx does not cancel: other callers may be waiting for it. f.mu is held.
func (f *flight[T]) start(ctx context.Context) *call[T] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.seq++
	c := &call[T]{begun: f.clock.Now(), seq: f.seq, cancel: cancel, done: make(chan struct{})}
	f.calls = c
	go func() {
		defer cancel()
		value, err := f.fetch(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		c.value, c.err = value, err
		if err == nil && c.seq > f.least && (f.last == nil || f.last.seq < c.seq) {
			f.last = c
		}
		if f.calls == c {
			f.calls = nil
		}
		close(c.done)
	}()

	return c
}

// leave removes one waiter from a call. It cancels the call if there is no other waiter, and new callers do not join
// it.
func (f *flight[T]) leave(c *call[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.waiters--
	if c.waiters > 0 {
		return
	}
	c.cancel()
	if f.calls == c {
		f.calls = nil
	}
}

// peek returns the last complete result, or nil.
func (f *flight[T]) peek() *call[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// amend changes the value of the last result. It does nothing if the last result is no longer the one that an earlier
// peek returned, passed as old.
func (f *flight[T]) amend(old *call[T], change func(T) T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && old != nil && f.last.seq == old.seq {
		f.last = &call[T]{value: change(f.last.value), begun: f.last.begun, seq: f.last.seq}
	}
}

// expire makes get ignore the last result and the results of calls in flight. peek still returns the last result.
func (f *flight[T]) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil // its waiters still get the result
	f.seq++
	if f.last != nil {
		f.last = &call[T]{value: f.last.value, seq: f.last.seq}
	}
	f.least = f.seq
}
