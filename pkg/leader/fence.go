// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader keeps a replica that does not lead, or no longer does, from writing, and hands the lease
// over when the leader ends. Kubernetes' leader election alone does neither: a leader that was paused goes
// on for seconds before it notices, and one that ends leaves its lease to run out.
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

// ErrClosed is why nothing is written any more: this process is about to end.
var ErrClosed = errors.New("this replica is ending")

// StaleError is why nothing is written: the lease is not, or no longer for sure, held by this process.
type StaleError struct {
	Age time.Duration // since the last renewal; zero when there was none
}

func (e *StaleError) Error() string {
	if e.Age == 0 {
		return "this replica does not lead"
	}
	return fmt.Sprintf("this replica may no longer lead: its lease was renewed %s ago", e.Age.Round(time.Second))
}

// Lease says where the election takes place.
type Lease struct {
	Namespace, Name string
	// Duration for which others leave a renewed lease alone.
	Duration time.Duration
}

// Fence lets writes pass as long as the process leads, which it learns from the renewals that pass through
// its own transport. Before Guard everything passes, as it does without an election.
type Fence struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	lease   *Lease
	renewed time.Time // when the last successful renewal was sent
	closed  bool
	writers int
	idle    chan struct{} // closed when writers is zero after Close
}

// NewFence makes an open fence; a nil clock is the real one.
func NewFence(c clock.PassiveClock) *Fence {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Fence{clock: c, idle: make(chan struct{})}
}

// Guard makes the fence go by a lease.
func (f *Fence) Guard(l Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease = &l
}

// Leads tells whether the lease is certainly held by this process.
func (f *Fence) Leads() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lease != nil && f.stale() == nil
}

// Enter begins a write; leave must be called when it has ended. The error is ErrClosed or a *StaleError.
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

// stale is called with f.mu held.
func (f *Fence) stale() error {
	if f.renewed.IsZero() {
		return &StaleError{}
	}
	now := f.clock.Now()
	// The clock of the process may stand still in a suspended machine, the one on the wall may be set.
	age := max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0)))
	if age >= f.lease.Duration {
		return &StaleError{Age: age}
	}
	return nil
}

// wake is called with f.mu held.
func (f *Fence) wake() {
	if f.closed && f.writers == 0 {
		select {
		case <-f.idle:
		default:
			close(f.idle)
		}
	}
}

// Close refuses all further writes, renewals of the lease among them, and waits for those under way.
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

// Wrap puts the fence in front of a transport to the Kubernetes API.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return &fencedTransport{fence: f, next: next}
}

type fencedTransport struct {
	fence *Fence
	next  http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport's connections.
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
	if renewal && err == nil && resp.StatusCode < http.StatusMultipleChoices {
		t.fence.renew(sent)
	}
	return resp, err
}

func (f *Fence) renew(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.After(f.renewed) {
		f.renewed = at
	}
}

// isRenewal recognises what the election writes: the lease is created in its namespace, or updated.
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
