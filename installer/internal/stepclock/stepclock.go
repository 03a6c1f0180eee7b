// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stepclock moves a test's clock whenever somebody waits for it.
package stepclock

import (
	"context"
	"runtime"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// Run steps the clock, until the test ends, each time that somebody waits for it. What the waiter waits for
// happens in before; it may be nil.
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
