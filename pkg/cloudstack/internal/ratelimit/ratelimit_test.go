// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"context"
	"errors"
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

// server counts calls as CloudStack does: an interval begins with the first call after the last one.
type server struct {
	Limit
	mu      sync.Mutex
	begun   time.Time
	n       int
	refused int
	running int
	most    int // calls under way at once
}

// call is counted at some time on its way. It returns the delay of a 429.
func (s *server) call(there, back time.Duration) (retry time.Duration) {
	s.mu.Lock()
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	time.Sleep(there)
	s.mu.Lock()
	if s.Max > 0 {
		if now := time.Now(); now.Sub(s.begun) >= s.Interval {
			s.begun, s.n = now, 0
		}
		s.n++
		if s.n > s.Max {
			s.refused++
			retry = time.Until(s.begun.Add(s.Interval))
		}
	}
	s.mu.Unlock()
	time.Sleep(back)
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	return retry
}

// burst makes n calls at once, again where they are refused, and returns how long all of them take.
func burst(t *testing.T, a *Limiter, s *server, n int, way func() (there, back time.Duration)) time.Duration {
	t.Helper()
	begun := time.Now()
	var group sync.WaitGroup
	for range n {
		there, back := way()
		group.Go(func() {
			for {
				done, err := a.Wait(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				retry := s.call(there, back)
				if retry > 0 {
					a.Throttled(retry)
				}
				done()
				if retry <= 0 {
					return
				}
				time.Sleep(retry)
			}
		})
	}
	group.Wait()
	return time.Since(begun)
}

func TestAServerThatThrottlesIsNeverExceeded(t *testing.T) {
	t.Parallel()
	for seed, limit := range []Limit{{25, time.Second}, {20, 30 * time.Second}, {1, time.Second}, {2, time.Second}, {200, time.Minute}, {1000, time.Second}} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 2))
				way := func() (there, back time.Duration) { return upTo(r, 400), upTo(r, 100) }
				a, s := NewAuto(clock.RealClock{}), &server{Limit: limit}
				a.Follow(limit)
				took := burst(t, a, s, 300, way)
				require.Zero(t, s.refused)
				require.LessOrEqual(t, s.most, InFlight)
				fair := time.Duration(300/max(1, limit.Max*24/25)+1) * (limit.Interval + 500*time.Millisecond)
				require.LessOrEqual(t, took, fair+300/InFlight*500*time.Millisecond, "it uses what the server allows")
			})
		})
	}
}

func upTo(r *rand.Rand, ms int) time.Duration { return time.Duration(r.IntN(ms)) * time.Millisecond }

func instantly() (there, back time.Duration) { return 0, 0 }

func TestAServerWithoutLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := NewAuto(clock.RealClock{}), &server{}
		require.Contains(t, a.String(), "10 calls per second")
		require.Zero(t, burst(t, a, s, unknownRate, instantly), "a few calls need no limit")
		asked := 0
		for range 3 {
			a.Ask(func() error { asked++; return errors.New("no answer") })
		}
		require.Equal(t, 1, asked, "a question that failed is not repeated at once")
		time.Sleep(askAgain)
		require.Zero(t, burst(t, a, s, unknownRate, instantly))
		a.Ask(func() error { asked++; require.True(t, a.Follow(Limit{})); return nil })
		require.Equal(t, 2, asked)
		require.False(t, a.Follow(Limit{}), "known")
		require.Contains(t, a.String(), "names no limit")
		time.Sleep(time.Second)
		require.Zero(t, burst(t, a, s, MaxRate, instantly), "calls are not delayed")
		require.Equal(t, 4*time.Second, burst(t, a, s, 4*MaxRate, instantly))
		a.Ask(func() error { t.Error("known"); return nil })
		time.Sleep(knownFor)
		burst(t, a, s, MaxRate, instantly)
		a.Ask(func() error { asked++; return nil })
		require.Equal(t, 3, asked, "after an hour the server is asked again, when calls have to wait")
	})
}

// A server that names no limit to the role, and an account that others use too: refusals make the rate smaller, time
// without any makes it larger.
func TestRefusalsMakeTheRateSmaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := NewAuto(clock.RealClock{}), &server{Limit: Limit{25, time.Second}}
		a.Follow(Limit{})
		burst(t, a, s, 100, instantly)
		first := s.refused
		require.Less(t, first, 100)
		s.refused = 0
		burst(t, a, s, 300, instantly)
		require.Less(t, s.refused, 100, "it comes near the limit from below")
		asked := false
		a.Ask(func() error { asked = true; a.Follow(s.Limit); return nil })
		require.True(t, asked, "a refusal shows that there is a limit now")
		s.refused = 0
		time.Sleep(time.Second)
		burst(t, a, s, 300, instantly)
		require.Zero(t, s.refused)

		before := a.now
		a.Throttled(time.Second)
		cut := a.now
		require.Less(t, cut, before)
		a.Throttled(time.Second)
		require.Equal(t, cut, a.now, "one interval makes it smaller once")
		time.Sleep(time.Minute)
		burst(t, a, s, 1, instantly)
		require.Equal(t, 24, a.now)
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAuto(clock.RealClock{})
		a.Follow(Limit{})
		var dones []func()
		for range InFlight {
			done, err := a.Wait(t.Context())
			require.NoError(t, err)
			dones = append(dones, done)
		}
		var order []int
		for i := range 3 {
			go func() {
				done, err := a.Wait(t.Context())
				if err == nil {
					order = append(order, i)
					done()
				}
			}()
			synctest.Wait()
		}
		require.Empty(t, order)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err := a.Wait(ctx)
		require.ErrorIs(t, err, context.Canceled)
		dones[0]()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, order)
	})
}

// limiterLog calls a limiter and notes when it lets calls through.
type limiterLog struct {
	*Limiter
	mu    sync.Mutex
	came  []time.Time
	order []int
	asked int
	group sync.WaitGroup
}

// call asks for a turn in a goroutine of its own; limit bounds the wait, 0 for no bound.
func (l *limiterLog) call(ctx context.Context, limit time.Duration) {
	number := l.asked
	l.asked++
	ctx, cancel := context.WithCancel(ctx)
	l.group.Go(func() {
		defer cancel()
		if limit > 0 {
			defer time.AfterFunc(limit, cancel).Stop()
		}
		if _, err := l.Wait(ctx); err != nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.came, l.order = append(l.came, time.Now()), append(l.order, number)
	})
	synctest.Wait() // so that calls come in the order in which the test makes them
}

func TestCancelledCallsGiveTheirPlaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &limiterLog{Limiter: Fixed(1, 1, clock.RealClock{})}
		ctx, cancel := context.WithCancel(t.Context())
		l.call(t.Context(), 0) // goes at once
		for range 50 {
			l.call(ctx, 0)
		}
		l.call(t.Context(), 0)
		l.call(t.Context(), 0)
		cancel()
		start := time.Now()
		l.group.Wait()
		require.Equal(t, []int{0, 51, 52}, l.order)
		require.Equal(t, 2*time.Second, time.Since(start), "the two that are left come a second apart")
	})
}

func TestACallThatCannotComeInTimeDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &limiterLog{Limiter: Fixed(1, 1, clock.RealClock{})}
		for range 4 {
			l.call(t.Context(), 0)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := l.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "would have to wait 4s")
		require.Equal(t, start, time.Now())
		l.group.Wait()
	})
}

// Calls at random times, some of them cancelled: the rate is never exceeded, nobody starves, and all come in their order.
func TestLimiterAtRandom(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		seed := uint64(i) + 1
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				l := &limiterLog{Limiter: Fixed(0.5+20*r.Float64(), 1+r.IntN(6), clock.RealClock{})}
				cancelled := 0
				for range 150 {
					limit := time.Duration(0)
					if r.IntN(5) == 0 {
						limit = time.Duration(1+r.IntN(3000)) * time.Millisecond
						cancelled++
					}
					l.call(t.Context(), limit)
					if r.IntN(3) == 0 {
						time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
					}
				}
				l.group.Wait()
				require.GreaterOrEqual(t, len(l.came), 150-cancelled, "nobody starves")
				require.Zero(t, l.waiting)
				require.IsIncreasing(t, l.order)
				slices.SortFunc(l.came, time.Time.Compare)
				for i := range l.came {
					for j := i; j < len(l.came); j++ {
						allowed := l.max + int(l.came[j].Sub(l.came[i])*time.Duration(l.max)/l.period)
						require.LessOrEqual(t, j-i+1, allowed, "calls %d to %d, seed %d", i, j, seed)
					}
				}
			})
		})
	}
}
