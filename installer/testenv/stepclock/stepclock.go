// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stepclock is the clock of tests of what polls: time goes on by polling, and by nothing else.
package stepclock

import (
	"sync"
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
