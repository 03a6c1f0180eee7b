// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"

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
	// OwnProject is the project that records name; empty for the configured one.
	OwnProject string
	Store      Store
	// Sign signs records for storage.
	Sign func(annotation.Records) annotation.Records

	memory *Memory
	stored annotation.Records // the framework's copy, which may be old
}

// Records returns the records of the Service as they were last saved or read. The process is the only writer of records:
// what it wrote is newer than any cached copy of the Service, stored.
func (m *Memory) Records(stored annotation.Records) *Records {
	return &Records{memory: m, stored: stored}
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

// record is what the Service's record says of an address. One of a VPC without rules is bound to no tier; the
// record then names the tier that it is meant for.
func (w *Work) record(a *plan.Address) annotation.AddressRecord {
	rec := a.Record(w.Records.OwnProject)
	if rec.NetworkID == "" {
		rec.NetworkID = w.Desired.NetworkID
	}
	return rec
}
