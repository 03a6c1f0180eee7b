// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// dated is the time of a response by the API server's clock and by the local clock. The monotonic reading of the local
// time measures the time since then.
type dated struct{ server, local time.Time }

// noteDate wraps the transport of the connection: it records the Date header of each response.
func (c *Cluster) noteDate(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
				c.dated.Store(&dated{at, time.Now()})
			}
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Clock returns a clock with the API server's time: the ages of leases and heartbeats must not depend on the clock of
// this machine, which may be wrong. Differences below clockTolerance are ignored, because the Date header has a
// resolution of one second.
func (c *Cluster) Clock(local clock.WithTicker) clock.WithTicker {
	if _, done := local.(serverClock); done {
		return local
	}
	return serverClock{local, c.dated}
}

const clockTolerance = 3 * time.Second

type serverClock struct {
	clock.WithTicker // the local clock
	dated            *atomic.Pointer[dated]
}

// Ahead returns by how much this machine's clock is ahead of the API server's. c is a clock of Cluster.Clock; for other
// clocks Ahead returns 0.
func Ahead(c clock.PassiveClock) time.Duration {
	s, ok := c.(serverClock)
	if !ok || s.dated == nil {
		return 0
	}
	d := s.dated.Load()
	if d == nil {
		return 0
	}
	ahead := s.WithTicker.Now().Sub(d.server.Add(time.Since(d.local)))
	if ahead.Abs() < clockTolerance {
		return 0
	}
	return ahead
}

// Now implements clock.PassiveClock.
func (s serverClock) Now() time.Time { return s.WithTicker.Now().Add(-Ahead(s)) }

// Since implements clock.PassiveClock.
func (s serverClock) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
