// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/report"
)

var (
	errUsage = Usagef("wrong usage")
	errUser  = errors.New("interrupted")
)

// until runs untilWell with a limit of a minute and a round every ten seconds, and interrupts it after some time.
func until(t *testing.T, interrupt time.Duration, look Round) (out, errOut bytes.Buffer, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if interrupt > 0 {
		defer time.AfterFunc(interrupt, func() { cancel(errUser) }).Stop()
	}
	f := WatchFlags{wait: true, interval: 10 * time.Second, limit: time.Minute}
	err = f.Repeat(ctx, &Globals{Streams: Streams{Out: &out, ErrOut: &errOut}}, look)
	return out, errOut, err
}

func TestUntilNothingFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		out, errOut, err := until(t, 0, func(_ context.Context, w io.Writer) (string, error) {
			n++
			_, _ = fmt.Fprintf(w, "round %d\n", n)
			switch n {
			case 1:
				return "", errors.New("the API server does not answer")
			case 2, 3:
				return "NODE-004", &report.Error{Code: 3}
			}

			return "", nil
		})
		require.NoError(t, err)
		require.Equal(t, "round 4\n", out.String(), "only the last round is written")
		require.Equal(t, "waiting: the API server does not answer\nwaiting: NODE-004\n", errOut.String(),
			"a line for each change")
	})
}

func TestUntilEnds(t *testing.T) {
	t.Parallel()
	fails := func(_ context.Context, w io.Writer) (string, error) {
		_, err := io.WriteString(w, "report\n")
		return "NODE-004", errors.Join(err, &report.Error{Code: 3})
	}

	for _, c := range []struct {
		name      string
		interrupt time.Duration
		look      Round
		is        error
		text, out string
		took      time.Duration
	}{
		{"out of time", 0, fails, ErrTimeout, "timed out after 1m0s (--timeout): NODE-004", "report\n", time.Minute},
		{"interrupted", 5 * time.Second, fails, errUser, "interrupted", "", 5 * time.Second},
		{"wrong usage", 0, func(context.Context, io.Writer) (string, error) { return "", errUsage }, errUsage,
			"wrong usage", "", 0},
		{"a round that does not end by itself", 0, func(ctx context.Context, _ io.Writer) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}, ErrTimeout, "timed out after 1m0s (--timeout): ", "", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				out, _, err := until(t, c.interrupt, c.look)
				require.ErrorIs(t, err, c.is)
				require.EqualError(t, err, c.text)
				require.Equal(t, c.out, out.String())
				require.Equal(t, c.took, time.Since(begun))
			})
		})
	}
}

// An error that is not the exit code of a report ends a watch.
func TestForeverEnds(t *testing.T) {
	t.Parallel()
	f := WatchFlags{On: true, interval: time.Hour}
	g := New(Streams{Out: io.Discard, ErrOut: io.Discard, Getenv: func(string) string { return "" }})
	err := f.Repeat(t.Context(), g, func(context.Context, io.Writer) (string, error) { return "", errUsage })
	require.ErrorIs(t, err, errUsage)
}
