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
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

var errClosed, errStale = errors.New("this replica is shutting down"), errors.New("this replica is not the leader")

// Lease identifies the Lease object of the leader election.
type Lease struct {
	Namespace, Name string
	// Duration is the time after a renewal during which other replicas do not take the lease over.
	Duration time.Duration
}

// Fence allows writes only while the process is the leader. It observes the lease renewals that go through its
// transport. Before Guard is called, as without leader election, it allows everything.
type Fence struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	lease   *Lease
	renewed time.Time // when the last successful renewal was sent; zero while another replica may lead
	closed  bool
	writes  sync.WaitGroup // writes in progress; none begins after closed is set
}

// NewFence returns a fence that allows everything.
func NewFence(c clock.PassiveClock) *Fence { return &Fence{clock: c} }

// Guard allows writes only while the process holds the lease.
func (f *Fence) Guard(l Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease = &l
}

// Enter starts a write; the caller must call leave when the write has ended.
func (f *Fence) Enter() (leave func(), err error) { return f.enter(false) }

func (f *Fence) enter(renewal bool) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	if err := f.stale(); err != nil && !renewal {
		return nil, err
	}
	f.writes.Add(1)
	return sync.OnceFunc(f.writes.Done), nil
}

// stale returns an error if there is a lease whose last renewal is not recent enough. f.mu is held.
func (f *Fence) stale() error {
	switch {
	case f.lease == nil:
		return nil
	case f.renewed.IsZero():
		return errStale
	}
	now := f.clock.Now()
	// Use the larger of both ages: the monotonic clock may stop while the machine is suspended, and somebody may
	// set the wall clock back.
	age := max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0)))
	if age >= f.lease.Duration {
		return fmt.Errorf("this replica may no longer lead: its lease was renewed %s ago", age.Round(time.Second))
	}
	return nil
}

// Close rejects all further writes, including renewals of the lease, and waits for the writes in progress.
func (f *Fence) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		f.writes.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("writes have not ended: %w", context.Cause(ctx))
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

	f := t.fence
	renewal := f.isRenewal(req)
	leave, err := f.enter(renewal)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	defer leave()

	sent := f.clock.Now()
	resp, err := t.next.RoundTrip(req)
	if !renewal || err != nil {
		return resp, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case resp.StatusCode == http.StatusConflict:
		// Another replica has written the lease and may have taken it. The framework retries until its renew deadline;
		// this replica must not write meanwhile.
		f.renewed = time.Time{}
	case resp.StatusCode < http.StatusMultipleChoices && sent.After(f.renewed):
		f.renewed = sent
	}

	return resp, err
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

// HandOver ends this process's leadership so that another replica need not wait for the lease to expire: it closes the
// fence, waits for the writes in progress, and then releases the lease if the process was the leader. If the writes do
// not end before the context does, the lease is left to expire: a new leader must not start while the old one may still
// write.
//
// The client leases must not use the fence's transport.
func (f *Fence) HandOver(ctx context.Context, leases coordinationv1client.LeasesGetter) error {
	host, err := os.Hostname() // the framework's identity begins with it
	if err := errors.Join(err, f.Close(ctx)); err != nil || f.lease == nil || f.stale() != nil {
		return err
	}

	client := leases.Leases(f.lease.Namespace)
	lease, err := client.Get(ctx, f.lease.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read lease %s/%s: %w", f.lease.Namespace, f.lease.Name, err)
	}

	if id := ptr.Deref(lease.Spec.HolderIdentity, ""); !strings.HasPrefix(id, host+"_") {
		return nil // another replica holds the lease
	}

	// These are the fields that client-go's ReleaseOnCancel writes. The update fails with a conflict if the lease
	// was changed in between, because it includes the resource version.
	now := metav1.NewMicroTime(f.clock.Now())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
	if _, err := client.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("release lease %s/%s: %w", f.lease.Namespace, f.lease.Name, err)
	}

	klog.InfoS("The lease is released: another replica can lead at once")
	return nil
}
