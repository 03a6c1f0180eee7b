// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
)

// granted is a call as the limiter let it through.
type granted struct {
	flow        string
	asked, came time.Time
	before      int // waiting calls of its own flow when it came
}

// limiterLog calls a limiter and notes what it does.
type limiterLog struct {
	*Limiter
	mu    sync.Mutex
	calls []granted
	group sync.WaitGroup
}

// call asks for a turn in a goroutine of its own; limit bounds the wait, 0 for no bound.
func (l *limiterLog) call(ctx context.Context, name string, limit time.Duration) {
	l.Limiter.mu.Lock()
	before := 0
	if f := l.flows[name]; f != nil {
		before = len(f.waiting)
	}
	l.Limiter.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	l.group.Go(func() {
		defer cancel()
		if limit > 0 {
			defer time.AfterFunc(limit, cancel).Stop()
		}
		asked := time.Now()
		if l.wait(ctx, name) != nil {
			return
		}
		l.mu.Lock()
		l.calls = append(l.calls, granted{flow: name, asked: asked, came: time.Now(), before: before})
		l.mu.Unlock()
	})
	synctest.Wait() // so that calls come in the order in which the test makes them
}

// neverTooFast checks that no stretch of time has more calls than rate and burst allow.
func neverTooFast(t *testing.T, calls []granted, l *Limiter, seed uint64) {
	t.Helper()
	b, _ := l.meter.(*bucket)
	times := make([]time.Time, 0, len(calls))
	for _, c := range calls {
		times = append(times, c.came)
	}
	slices.SortFunc(times, time.Time.Compare)
	for i := range times {
		for j := i; j < len(times); j++ {
			allowed := b.burst + int(times[j].Sub(times[i])/b.interval)
			require.LessOrEqual(t, j-i+1, allowed, "calls %d to %d, seed %d", i, j, seed)
		}
	}
}

func TestCancelledCallsGiveTheirPlaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &limiterLog{Limiter: Fixed(1, 1, clock.RealClock{})}
		ctx, cancel := context.WithCancel(t.Context())
		l.call(t.Context(), "a", 0) // goes at once
		for range 50 {
			l.call(ctx, "a", 0) // the first of them is the leader
		}
		l.call(t.Context(), "b", 0)
		l.call(t.Context(), "a", 0)
		cancel()
		start := time.Now()
		l.group.Wait()
		require.Len(t, l.calls, 3)
		require.Equal(t, 2*time.Second, time.Since(start), "the two that are left come a second apart")
	})
}

func TestACallThatCannotComeInTimeDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &limiterLog{Limiter: Fixed(1, 1, clock.RealClock{})}
		for range 4 {
			l.call(t.Context(), "a", 0)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := l.wait(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "would have to wait 4s")
		require.Equal(t, start, time.Now())
		require.NoError(t, l.wait(ctx, "b"), "its turn is next, or the one after")
		l.group.Wait()
	})
}

// Calls of random flows at random times, some of them cancelled: the rate is never exceeded, nobody starves, and
// nobody waits for more turns of another flow than there are calls of its own up to it.
func TestFairLimiterAtRandom(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		seed := uint64(i) + 1
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				l := &limiterLog{Limiter: Fixed(0.5+20*r.Float64(), 1+r.IntN(6), clock.RealClock{})}
				flows := 1 + r.IntN(5)
				cancelled := 0
				for range 150 {
					limit := time.Duration(0)
					if r.IntN(5) == 0 {
						limit = time.Duration(1+r.IntN(3000)) * time.Millisecond
						cancelled++
					}
					l.call(t.Context(), fmt.Sprintf("flow %d", r.IntN(r.IntN(flows)+1)), limit)
					if r.IntN(3) == 0 {
						time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
					}
				}
				l.group.Wait()
				require.GreaterOrEqual(t, len(l.calls), 150-cancelled, "nobody starves")
				neverTooFast(t, l.calls, l.Limiter, seed)
				require.Empty(t, l.flows, "nothing is kept of flows that do not wait")
				require.Empty(t, l.order)
				require.Nil(t, l.leader)
				for _, c := range l.calls {
					turns := map[string]int{}
					for _, o := range l.calls {
						if o.flow != c.flow && o.came.After(c.asked) && o.came.Before(c.came) {
							turns[o.flow]++
						}
					}
					for flow, n := range turns {
						require.LessOrEqual(t, n, c.before+1, "%s held up %s, seed %d", flow, c.flow, seed)
					}
				}
			})
		})
	}
}
