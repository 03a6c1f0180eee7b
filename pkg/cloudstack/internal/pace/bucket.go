// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"math"
	"time"
)

// bucket is a token bucket.
type bucket struct {
	interval time.Duration // between two calls at the rate
	burst    int
	// full is when all tokens are there again. Each call that is let through moves it by one interval.
	full time.Time
}

func newBucket(rate float64, burst int) *bucket {
	// Rounded up, so that the rate is never exceeded.
	return &bucket{interval: time.Duration(math.Ceil(float64(time.Second) / rate)), burst: burst}
}

func (b *bucket) delay(now time.Time) time.Duration {
	return max(0, b.full.Sub(now)) - time.Duration(b.burst-1)*b.interval
}

func (b *bucket) take(now time.Time) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(b.interval)
}

// String says what the limit is.
func (b *bucket) String() string {
	return fmt.Sprintf("%.3g calls per second, %d at once", float64(time.Second)/float64(b.interval), b.burst)
}

func (b *bucket) giveBack()            { b.full = b.full.Add(-b.interval) }
func (b *bucket) answered(time.Time)   {}
func (b *bucket) every() time.Duration { return b.interval }
