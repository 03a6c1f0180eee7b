// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	t.Parallel()
	tries := 0
	if err := Wait(t.Context(), time.Minute, "three tries", func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	}); err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	err := Wait(t.Context(), time.Millisecond, "the impossible", func(context.Context) error { return errors.New("never") })
	if err == nil || err.Error() != "waited 1ms for the impossible: never" {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Wait(ctx, time.Minute, "a cancelled thing", func(context.Context) error { return errors.New("never") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want the cancellation", err)
	}
}
