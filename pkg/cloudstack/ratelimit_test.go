// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

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

	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// server counts calls as CloudStack does: an interval begins with the first call after the previous interval.
type server struct {
	Capabilities
	mu      sync.Mutex
	begun   time.Time
	n       int
	refused int
	running int
	most    int       // the maximum of running
	paused  time.Time // after a 429, no call is sent before this time
}

// call simulates a call: the server counts it after the duration there, and the answer arrives after the duration back.
// It returns the delay of a 429.
func (s *server) call(there, back time.Duration) (retry time.Duration) {
	s.mu.Lock()
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	time.Sleep(there)
	s.mu.Lock()
	if now := time.Now(); now.Sub(s.begun) >= s.RateInterval {
		s.begun, s.n = now, 0
	}

	if s.n++; s.RateMax > 0 && s.n > s.RateMax {
		s.refused++
		s.paused = s.begun.Add(s.RateInterval)
		retry = time.Until(s.paused)
	}

	s.mu.Unlock()
	time.Sleep(back)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	return retry
}

// burst makes n calls at once and repeats those that are refused, no call more often than a client does. It returns how
// long all of them take.
func burst(t *testing.T, a *limiter, s *server, n int, way func() (there, back time.Duration)) time.Duration {
	t.Helper()
	begun := time.Now()
	var group sync.WaitGroup
	for range n {
		there, back := way()
		group.Go(func() {
			for range defaultTries {
				s.mu.Lock()
				pause := time.Until(s.paused)
				s.mu.Unlock()
				time.Sleep(pause)
				done, err := a.wait(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				retry := s.call(there, back)
				done()
				if retry <= 0 {
					return
				}
				a.throttled(retry)
			}
			t.Error("the call was refused too often")
		})
	}

	group.Wait()
	return time.Since(begun)
}

func TestAServerThatThrottlesIsNeverExceeded(t *testing.T) {
	t.Parallel()
	for seed, limit := range []Capabilities{
		{"", 25, time.Second},
		{"", 20, 30 * time.Second},
		{"", 1, time.Second},
		{"", 2, time.Second},
		{"", 200, time.Minute},
		{"", 1000, time.Second},
	} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 2))
				a, s := fixed(cloudconfig.AutoRate, 0), &server{Capabilities: limit}
				a.follow(limit)
				took := burst(t, a, s, 300,
					func() (there, back time.Duration) { return 20 * time.Millisecond, upTo(r, 400) })
				require.Zero(t, s.refused)
				require.LessOrEqual(t, s.most, atOnce)
				fair := time.Duration((300/0.9/float64(limit.RateMax) + 1) * float64(limit.RateInterval))
				require.LessOrEqual(t, took, fair+300/atOnce*500*time.Millisecond, "it uses what the server allows")

				// Calls sent in one interval may arrive in the next one.
				burst(t, a, s, 300, func() (there, back time.Duration) { return upTo(r, 400), upTo(r, 100) })
				require.Less(t, s.refused, 60)
			})
		})
	}
}

func fixed(perSecond float64, burst int) *limiter {
	return newLimiter(&Config{RateLimit: perSecond, RateBurst: burst}, clock.RealClock{})
}

func upTo(r *rand.Rand, ms int) time.Duration { return time.Duration(r.IntN(ms)) * time.Millisecond }
func instantly() (there, back time.Duration)  { return 0, 0 }

func TestAServerWithoutLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := fixed(cloudconfig.AutoRate, 0), &server{}
		require.Zero(t, burst(t, a, s, unknownRate, instantly), "a few calls need no limit")
		require.True(t, a.asks(), "now calls have to wait")
		require.False(t, a.asks(), "a question that failed is not repeated at once")
		time.Sleep(askAgain)
		require.False(t, a.asks(), "no call has to wait")

		require.Zero(t, burst(t, a, s, unknownRate, instantly))
		require.True(t, a.asks())

		_, changed := a.follow(Capabilities{})
		require.True(t, changed)
		_, changed = a.follow(Capabilities{})
		require.False(t, changed, "known")
		time.Sleep(time.Second)
		require.Zero(t, burst(t, a, s, atOnce, instantly), "calls are not delayed")
		require.InDelta(t, 4, burst(t, a, s, 4*freeRate, instantly).Seconds(), 0.2)
		require.False(t, a.asks(), "known")

		time.Sleep(knownFor)
		burst(t, a, s, freeRate, instantly)
		require.True(t, a.asks(), "after an hour the server is asked again, when calls have to wait")
	})
}

// If the role may not read the server's limit, or if the account has other users, refusals lower the rate, and time
// without refusals raises it.
func TestRefusalsMakeTheRateSmaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, s := fixed(cloudconfig.AutoRate, 0), &server{Capabilities: Capabilities{"", 25, time.Second}}
		a.follow(Capabilities{})
		burst(t, a, s, 300, instantly)
		require.Less(t, s.refused, 60, "it comes near the limit from below")
		require.True(t, a.asks(), "a refusal shows that there is a limit now")
		a.follow(s.Capabilities)
		s.refused = 0
		time.Sleep(time.Second)
		burst(t, a, s, 300, instantly)
		require.Zero(t, s.refused)
		before := a.calls.Limit()
		for range 2 {
			a.throttled(time.Second)
			require.InDelta(t, float64(before/2), float64(a.calls.Limit()), 0.01, "one interval makes it smaller once")
		}

		time.Sleep(time.Minute)
		burst(t, a, s, 1, instantly)
		require.InDelta(t, float64(before), float64(a.calls.Limit()), 0)
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := fixed(cloudconfig.AutoRate, 0)
		a.follow(Capabilities{})
		var dones []func()
		for range atOnce {
			done, err := a.wait(t.Context())
			require.NoError(t, err)
			dones = append(dones, done)
		}

		var order []int
		for i := range 3 {
			go func() {
				if done, err := a.wait(t.Context()); err == nil {
					order = append(order, i)
					done()
				}
			}()
			synctest.Wait()
		}

		require.Empty(t, order)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		_, err := a.wait(ctx)
		require.ErrorIs(t, err, context.Canceled)
		dones[0]()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, order)
	})
}

// limiterLog calls a limiter and records when it lets calls through.
type limiterLog struct {
	*limiter
	mu    sync.Mutex
	came  []time.Time
	order []int
	asked int
	group sync.WaitGroup
}

// call waits for the limiter in a new goroutine. limit bounds the wait; 0 means no bound.
func (l *limiterLog) call(ctx context.Context, limit time.Duration) {
	number := l.asked
	l.asked++
	ctx, cancel := context.WithCancel(ctx)
	l.group.Go(func() {
		defer cancel()
		if limit > 0 {
			defer time.AfterFunc(limit, cancel).Stop()
		}
		if _, err := l.wait(ctx); err != nil {
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
		l := &limiterLog{limiter: fixed(1, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		l.call(t.Context(), 0) // is let through at once
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

// Calls at random times, some of them cancelled: the rate is never exceeded, and every call is let through in the order
// of arrival.
func TestLimiterAtRandom(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		seed := uint64(i) + 1
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				perSecond, burst := 0.5+20*r.Float64(), 1+r.IntN(6)
				l := &limiterLog{limiter: fixed(perSecond, burst)}
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
				require.Zero(t, l.waiting.Load())
				require.IsIncreasing(t, l.order)
				slices.SortFunc(l.came, time.Time.Compare)
				for i := range l.came {
					for j := i; j < len(l.came); j++ {
						allowed := burst + int(l.came[j].Sub(l.came[i]).Seconds()*perSecond+1e-6)
						require.LessOrEqual(t, j-i+1, allowed, "calls %d to %d, seed %d", i, j, seed)
					}
				}
			})
		})
	}
}
