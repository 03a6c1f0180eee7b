// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// pollPeriod is short, because only processes of this machine are polled.
const pollPeriod = 100 * time.Millisecond

// Wait polls until try succeeds. If try ends through package must, that is its error. After limit, Wait returns an
// error that names what was waited for, with the last error of try.
func Wait(ctx context.Context, limit time.Duration, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	var last error
	for {
		err := must.Catch(func() { must.OK(try(ctx)) })
		if err == nil {
			return nil
		}

		// A try that the time-out interrupted has a less useful error than the one before.
		if last == nil || ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}

		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return fmt.Errorf("waited %s for %s: %w", limit, what, last)
			}
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Await is like Wait, but it and try fail through package must.
func Await(ctx context.Context, limit time.Duration, what string, try func(context.Context)) {
	must.OK(Wait(ctx, limit, what, func(ctx context.Context) error {
		try(ctx)
		return nil
	}))
}
