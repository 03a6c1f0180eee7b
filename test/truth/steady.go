// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// steady is traffic that goes on while something else happens.
type steady struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu   sync.Mutex
	sum  summary
	last time.Time // of the last success
}

// summary of steady traffic.
type summary struct {
	requests, failures int
	gap                time.Duration // the longest time without a success
	err                error         // the first failure
}

const (
	steadyPeriod  = 10 * time.Millisecond
	steadyWorkers = 8
)

// steady begins to send requests, each on a connection of its own, some 100 a second.
func (b *bed) steady(ctx context.Context, to ...netip.AddrPort) *steady {
	ctx, cancel := context.WithCancel(ctx)
	s := &steady{cancel: cancel, last: time.Now()}
	next := make(chan netip.AddrPort)
	s.done.Go(func() {
		defer close(next)
		tick := time.NewTicker(steadyPeriod)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case next <- to[i%len(to)]:
			case <-ctx.Done():
				return
			}
		}
	})
	for range steadyWorkers {
		s.done.Go(func() {
			for at := range next {
				// A request that has begun is not cut by the end of the traffic.
				_, err := ask(context.WithoutCancel(ctx), client1, at)
				s.count(at, err)
			}
		})
	}
	return s
}

func (s *steady) count(at netip.AddrPort, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.requests++
	now := time.Now()
	s.sum.gap = max(s.sum.gap, now.Sub(s.last))
	if err == nil {
		s.last = now
		return
	}
	s.sum.failures++
	if s.sum.err == nil {
		s.sum.err = fmt.Errorf("%s: %w", at, err)
	}
}

func (s *steady) sofar() summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

func (s *steady) stop() summary {
	s.cancel()
	s.done.Wait()
	return s.sofar()
}

func (s *steady) flawless() error { return s.sofar().flawless() }

func (s summary) flawless() error {
	if s.failures > 0 {
		return fmt.Errorf("%s; the first: %w", s, s.err)
	}
	return nil
}

func (s summary) String() string {
	return fmt.Sprintf("%d requests, %d failures, longest gap %s", s.requests, s.failures, s.gap.Round(time.Millisecond))
}
