// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package poll looks again and again, by a clock that tests can set.
package poll

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Until calls done at once and then in each interval, until it reports true or fails, ctx ends, or limit has passed:
// then inTime is false.
func Until(
	ctx context.Context, c clock.Clock, interval, limit time.Duration, done func() (bool, error),
) (inTime bool, err error) {
	deadline := c.After(limit)
	for {
		if ok, err := done(); ok || err != nil {
			return ok, err
		}

		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-deadline:
			return false, nil
		case <-c.After(interval):
		}
	}
}
