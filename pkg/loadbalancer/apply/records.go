// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
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

// Records are the records of one Service that this controller signed. They change with the work.
type Records struct {
	annotation.Records
	Store Store
	// Sign signs records for storage.
	Sign func(annotation.Records) annotation.Records

	memory *Memory
	stored annotation.Records // the framework's copy, which may be old
}

// Stored are the records as last known to be on the Service, with those of other writers.
func (r *Records) Stored() annotation.Records {
	if r.memory.records != nil {
		return *r.memory.records
	}
	return r.stored
}

// Save writes the records to the Service if they changed.
func (r *Records) Save(ctx context.Context) error {
	signed := r.Sign(r.Records)
	if r.Stored().Equal(signed) {
		return nil
	}
	if err := r.Store.Save(ctx, signed); err != nil {
		return fmt.Errorf("record addresses on the Service: %w", err)
	}
	r.memory.records = &signed
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

// Memory is what has to be remembered of a Service's changes until the next sync.
type Memory struct {
	records   *annotation.Records  // as last saved or read; nil when the Service's copy counts
	Releasing map[string]time.Time // addresses whose release was asked for and not seen to succeed; the zero time when it is known to have failed
	deleting  map[string]time.Time // addresses with a rule in state Deleting, and since when
}

// NewMemory makes an empty Memory.
func NewMemory() Memory {
	return Memory{Releasing: map[string]time.Time{}, deleting: map[string]time.Time{}}
}

// Records returns the records of the Service as they were last saved or read. The process is the only writer of records:
// what it wrote is newer than any cached copy of the Service, stored.
func (m *Memory) Records(stored annotation.Records) *Records {
	return &Records{memory: m, stored: stored}
}
