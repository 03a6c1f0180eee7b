// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stepclock is a fake clock for tests of code that polls. Only polls advance its time.
package stepclock

import (
	"sync"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// longestPoll is the longest interval between two polls. Any longer duration is the timeout of a wait.
const longestPoll = 2 * time.Second

// Clock ends the interval between two polls at once, and advances its time by that interval. A timeout has passed when
// the intervals add up to it. Nothing else advances the clock. So even on a slow machine, a timeout passes only after
// the program under test has polled as often as it can within that time.
type Clock struct {
	*clocktesting.FakeClock

	mu     sync.Mutex
	before func()
}

// New returns a clock. It calls before at each poll, where a test can make happen what the program waits for; before
// may be nil.
func New(before func()) *Clock {
	return &Clock{FakeClock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), before: before}
}

// After returns a channel that is ready at once for the interval of a poll. For a timeout it is ready once the polls
// have advanced the clock that far.
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
