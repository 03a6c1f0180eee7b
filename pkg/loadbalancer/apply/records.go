// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Store keeps records on one Service.
type Store interface {
	// Load reads the records as they are now, not from a cache.
	Load(ctx context.Context) (annotation.Records, error)
	// Save replaces them. A Service that is gone is no error.
	Save(ctx context.Context, r annotation.Records) error
}

// Records are the records of one Service. They change with the work.
type Records struct {
	annotation.Records
	store  Store
	stored annotation.Records // as on the Service
}

// NewRecords returns the records that are on the Service.
func NewRecords(stored annotation.Records, store Store) *Records {
	return &Records{Records: stored.Clone(), store: store, stored: stored}
}

// ErrRecordsChanged means that the Service has other records than the sync began with: it must begin again with these.
var ErrRecordsChanged = errors.New("the records of the Service were changed meanwhile")

// check compares with the Service as the API server has it now.
func (r *Records) check(ctx context.Context) error {
	live, err := r.store.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the Service's records: %w", err)
	}
	if live.Equal(r.stored) {
		return nil
	}
	r.Records, r.stored = live.Clone(), live
	return ErrRecordsChanged
}

// Save writes the records to the Service if they changed.
func (r *Records) Save(ctx context.Context) error {
	if r.stored.Equal(r.Records) {
		return nil
	}
	if err := r.store.Save(ctx, r.Records); err != nil {
		return fmt.Errorf("record addresses on the Service: %w", err)
	}
	r.stored = r.Clone()
	return nil
}

// Keep drops the records of addresses other than these.
func (r *Records) Keep(actual *plan.Actual) {
	r.Addresses = slices.DeleteFunc(r.Addresses, func(rec annotation.AddressRecord) bool { return actual.Find(rec.ID) == nil })
}

func (r *Records) set(rec annotation.AddressRecord) {
	r.drop(rec.ID)
	r.Addresses = append(r.Addresses, rec)
}

func (r *Records) drop(id string) {
	r.Addresses = slices.DeleteFunc(r.Addresses, func(x annotation.AddressRecord) bool { return x.ID == id })
}

func (r *Records) dropPending(jobID string) {
	r.Pending = slices.DeleteFunc(r.Pending, func(p annotation.PendingAllocation) bool { return p.JobID == jobID })
}

// RecordServing records the address that serves. The record names ports before they are opened and until they are closed;
// when a plan is done, and no call that opens one can still arrive, only the wanted ones.
func (w *Work) RecordServing(ctx context.Context, done bool) error {
	if target := plan.Target(w.Desired, *w.Actual); target != nil {
		a := w.Actual.Find(target.ID)
		var opened plan.PortSet
		if w.Desired.Firewall && !a.Internal {
			opened = w.Desired.Opened()
		}
		forwarded := w.Desired.Forwarded()
		if !done || !a.Settled {
			opened, forwarded = opened.Union(a.FirewallPorts), forwarded.Union(a.ForwardPorts)
		}
		a.FirewallPorts, a.ForwardPorts, a.Recorded = opened, forwarded, true
		a.HasStickiness = a.HasStickiness || w.Desired.HasStickiness()
		w.Records.set(w.record(a))
	}
	return w.Records.Save(ctx)
}

// Memory is what has to be remembered of a Service's changes until the next sync.
type Memory struct {
	Releasing map[string]time.Time // addresses whose release was asked for and not seen to succeed; the zero time when it is known to have failed
	deleting  time.Time            // since when a rule in state Deleting keeps an address from being released
}
