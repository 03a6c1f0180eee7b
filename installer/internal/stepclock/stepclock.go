// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stepclock is the clock of tests of what polls: time goes on by polling, and by nothing else.
package stepclock

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// longestPoll is the longest wait between two looks at something. A longer one is a limit.
const longestPoll = 2 * time.Second

// Clock ends the wait of a poll at once, and its time has gone by. A limit is over when the polls add up to it. Nobody
// steps the clock beside the program under test, so however late a busy machine lets that run, no limit passes before
// it has looked as often as it may.
type Clock struct {
	*clocktesting.FakeClock

	mu     sync.Mutex
	before func()
}

// New makes a clock. What the polls wait for happens in before, at each poll; it may be nil.
func New(before func()) *Clock {
	return &Clock{FakeClock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), before: before}
}

// After is over already if it is a poll's.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	over := c.FakeClock.After(d)
	if d > longestPoll {
		return over
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before != nil {
		c.before()
	}
	c.Step(d)
	return over
}

// Run steps a clock, until the test ends, each time that somebody waits for it. What the waiter waits for happens in before; it
// may be nil. New is the better way: under Run a goroutine that is held up finds more time gone than it has waited.
func Run(t *testing.T, clock *clocktesting.FakeClock, step time.Duration, before func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			if clock.HasWaiters() {
				if before != nil {
					before(ctx)
				}
				clock.Step(step)
			}
			runtime.Gosched()
		}
	}()
	t.Cleanup(func() { cancel(); <-stopped })
}
