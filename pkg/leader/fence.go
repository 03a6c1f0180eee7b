// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader prevents a replica that is not, or no longer, the leader from writing, and releases the lease when
// the leader shuts down. Kubernetes' leader election alone does neither: a leader that was suspended continues for
// seconds before it notices that it lost the lease, and a leader that exits leaves its lease to expire.
package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrClosed is the error of writes after Close: this process is shutting down.
var ErrClosed = errors.New("this replica is ending")

// StaleError is the error of writes while this process does not hold the lease, or may no longer hold it.
type StaleError struct {
	Age time.Duration // since the last renewal; zero when there was none
}

func (e *StaleError) Error() string {
	if e.Age == 0 {
		return "this replica does not lead"
	}
	return fmt.Sprintf("this replica may no longer lead: its lease was renewed %s ago", e.Age.Round(time.Second))
}

// Lease identifies the Lease object of the leader election.
type Lease struct {
	Namespace, Name string
	// Duration is the time after a renewal during which other replicas do not take the lease over.
	Duration time.Duration
}

// Fence allows writes only while the process is the leader. It learns that from the lease renewals that go through
// its transport. Before Guard is called, as without leader election, it allows everything.
type Fence struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	lease   *Lease
	renewed time.Time // when the last successful renewal was sent
	closed  bool
	writers int
	idle    chan struct{} // closed when writers is zero after Close
	end     func()        // closes idle
}

// NewFence returns a fence that allows everything; a nil clock means the real clock.
func NewFence(c clock.PassiveClock) *Fence {
	if c == nil {
		c = clock.RealClock{}
	}
	idle := make(chan struct{})
	return &Fence{clock: c, idle: idle, end: sync.OnceFunc(func() { close(idle) })}
}

// Guard allows writes only while the process holds the lease.
func (f *Fence) Guard(l Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease = &l
}

// Leads reports whether this process certainly holds the lease.
func (f *Fence) Leads() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lease != nil && f.stale() == nil
}

// Enter starts a write; the caller must call leave when the write has ended. The error is ErrClosed or a *StaleError.
func (f *Fence) Enter() (leave func(), err error) { return f.enter(false) }

func (f *Fence) enter(renewal bool) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if f.lease != nil && !renewal {
		if err := f.stale(); err != nil {
			return nil, err
		}
	}
	f.writers++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.writers--
		f.wake()
	}), nil
}

// stale returns a *StaleError unless the last renewal is recent enough. f.mu is held.
func (f *Fence) stale() error {
	if f.renewed.IsZero() {
		return &StaleError{}
	}
	now := f.clock.Now()
	// Use the larger of both ages: the monotonic clock may stop while the machine is suspended, and somebody may
	// set the wall clock back.
	age := max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0)))
	if age >= f.lease.Duration {
		return &StaleError{Age: age}
	}
	return nil
}

// wake closes f.idle once the fence is closed and no write is in progress. f.mu is held.
func (f *Fence) wake() {
	if f.closed && f.writers == 0 {
		f.end()
	}
}

// Close rejects all further writes, including renewals of the lease, and waits for the writes in progress.
func (f *Fence) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	f.wake()
	f.mu.Unlock()
	select {
	case <-f.idle:
		return nil
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Errorf("%d writes have not ended: %w", f.writers, context.Cause(ctx))
	}
}

// Wrap returns a transport to the Kubernetes API whose writes pass through the fence.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper { return &fencedTransport{f, next} }

type fencedTransport struct {
	fence *Fence
	next  http.RoundTripper
}

// WrappedRoundTripper implements k8s.io/apimachinery's net.RoundTripperWrapper, so that client-go can find the
// transport's connections.
func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *fencedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return t.next.RoundTrip(req)
	}
	renewal := t.fence.isRenewal(req)
	leave, err := t.fence.enter(renewal)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	defer leave()
	sent := t.fence.clock.Now()
	resp, err := t.next.RoundTrip(req)
	switch {
	case !renewal || err != nil:
	case resp.StatusCode < http.StatusMultipleChoices:
		t.fence.renew(sent)
	case resp.StatusCode == http.StatusConflict:
		// Somebody else has written the lease, perhaps to take it: the framework tries on for its renew deadline, and would let
		// this replica write meanwhile.
		t.fence.lose()
	}
	return resp, err
}

// lose forgets the last renewal: this replica does not lead until it renews again.
func (f *Fence) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = time.Time{}
}

func (f *Fence) renew(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.After(f.renewed) {
		f.renewed = at
	}
}

// isRenewal reports whether the request is a write of the leader election: it creates a lease in the namespace of
// f.lease, or updates f.lease.
func (f *Fence) isRenewal(req *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lease == nil {
		return false
	}
	folder := "/apis/coordination.k8s.io/v1/namespaces/" + f.lease.Namespace + "/leases"
	return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, folder) ||
		req.Method == http.MethodPut && strings.HasSuffix(req.URL.Path, folder+"/"+f.lease.Name)
}
