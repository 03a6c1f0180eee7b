// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The error of a timeout names --timeout and has its own exit code, whatever detects the timeout first: client-go
// rejects a call in advance if it would miss the deadline.
func TestTimeout(t *testing.T) {
	t.Parallel()

	limited := errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline")
	for _, tc := range []struct {
		timeout time.Duration
		err     error // nil means the context's error
		code    int
		says    string
	}{
		{time.Nanosecond, nil, 124, "timed out after 1ns (--timeout): waiting"},
		{500 * time.Millisecond, limited, 124, "timed out after 500ms (--timeout)"},
		// The connection has noticed the timeout first.
		{500 * time.Millisecond, fmt.Errorf("read: %w", context.DeadlineExceeded), 124,
			"timed out after 500ms (--timeout)"},
		// The limit of a part of the command is not --timeout.
		{time.Hour, limited, 1, "would exceed"},
	} {
		g := New(Streams{Getenv: func(string) string { return "" }})
		g.Timeout = tc.timeout
		err := g.within(t.Context(), func(ctx context.Context) error {
			if tc.err != nil {
				return tc.err
			}
			<-ctx.Done()
			return fmt.Errorf("waiting: %w", ctx.Err())
		})
		require.ErrorContains(t, err, tc.says)
		require.Equal(t, tc.code, ExitCode(err))
	}
}
