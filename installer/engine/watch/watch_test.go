// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/engine/report"
)

// waiting runs a wait of one minute with a round every ten seconds, whose clock the test moves.
func waiting(t *testing.T, look round) (out, errOut *rounds, c *clocktesting.FakeClock, ended chan error, interrupt func()) {
	t.Helper()
	out, errOut = &rounds{}, &rounds{}
	g := newGlobals(streams{out: out, errOut: errOut, getenv: environment()})
	c = clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	g.clock = c
	ctx, cancel := context.WithCancelCause(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- g.wait(ctx, watchFlags{wait: time.Minute, interval: 10 * time.Second}, look) }()
	return out, errOut, c, ended, func() { cancel(errInterrupted) }
}

// between waits until a round is over: the wait's own timer and that of the interval are set.
func between(t *testing.T, c *clocktesting.FakeClock) {
	t.Helper()
	require.Eventually(t, func() bool { return c.Waiters() == 2 }, time.Minute, time.Millisecond)
}

func TestWaitUntilNothingFails(t *testing.T) {
	t.Parallel()
	n := 0
	out, errOut, c, ended, _ := waiting(t, func(_ context.Context, w io.Writer) (string, error) {
		n++
		_, _ = fmt.Fprintf(w, "round %d\n", n)
		switch n {
		case 1:
			return "", errors.New("the API server does not answer")
		case 2, 3:
			return "NODE-004", &report.ExitError{Code: 3}
		}
		return "", nil
	})
	for range 3 {
		between(t, c)
		c.Step(10 * time.Second)
	}
	require.NoError(t, <-ended)
	require.Equal(t, "round 4\n", out.String(), "only the last round is written")
	require.Equal(t, "waiting: the API server does not answer\nwaiting: NODE-004\n", errOut.String(), "a line for each change")
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	fails := func(_ context.Context, w io.Writer) (string, error) {
		_, err := io.WriteString(w, "report\n")
		if err != nil {
			return "", err
		}
		return "NODE-004", &report.ExitError{Code: 3}
	}
	out, _, c, ended, _ := waiting(t, fails)
	between(t, c)
	c.Step(time.Minute)
	err := <-ended
	require.Equal(t, report.ExitTimeout, exitCode(err))
	require.EqualError(t, err, "timed out after 1m0s (--wait): NODE-004")
	require.Equal(t, "report\n", out.String())

	_, _, c, ended, interrupt := waiting(t, fails)
	between(t, c)
	interrupt()
	require.Equal(t, report.ExitInterrupted, exitCode(<-ended))

	_, _, _, ended, _ = waiting(t, func(context.Context, io.Writer) (string, error) { return "", usagef("wrong") })
	require.Equal(t, report.ExitUsage, exitCode(<-ended))

	// The time ends a round that does not come to its end.
	_, _, c, ended, _ = waiting(t, func(ctx context.Context, _ io.Writer) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	require.Eventually(t, c.HasWaiters, time.Minute, time.Millisecond)
	c.Step(time.Minute)
	require.Equal(t, report.ExitTimeout, exitCode(<-ended))
}

// The real command, against a cluster that does not get well: the last report, and exit code 124.
func TestDoctorWaits(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	for _, args := range [][]string{{"doctor", "-o", "short"}, {"status"}} {
		c := execute(t, append(args, "--server", a.url, "--interval", "1s", "--wait=1s")...)
		require.Equal(t, report.ExitTimeout, c.code, c.errOut)
		require.NotEmpty(t, c.out)
		require.Contains(t, c.errOut, "(--wait)")
	}
}
