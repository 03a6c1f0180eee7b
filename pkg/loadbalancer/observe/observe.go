// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads what CloudStack has of a Service. It only reads, and it decides nothing but whose an item is.
package observe

import (
	"context"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Observe reads what concerns a Service.
//
// A Service with a record costs two reads an address (its rules, its firewall
// or network ACL list) and one more for the address itself when Prove is set
// or something is in doubt. The first looks after a start, and those of the
// drift loop, share whole lists.
func (o *Observer) Observe(ctx context.Context, q Query) (Observation, error) {
	r := &reading{Observer: o, Query: q, limits: o.options.Server.Limits(), out: Observation{Begun: o.options.Clock.Now()}, vacant: map[string]bool{}}
	if !q.BulkSince.IsZero() && !q.Prove {
		r.shared = o.sharedLists(q.Project, q.BulkSince)
	}
	err := r.read(ctx)
	q.Memory.known = q.Memory.known || err == nil
	if r.shared != nil {
		r.out.Begun = r.shared.begun
	}
	return r.out, err
}

func (r *reading) read(ctx context.Context) error {
	found, err := r.candidates(ctx)
	if err != nil {
		return err
	}
	lost, err := r.readAddresses(ctx, found)
	if lost && err == nil {
		// The record is not to be relied on: it may be an old one that somebody put back.
		known := len(found)
		if err = r.unrecorded(ctx, &found); err == nil {
			_, err = r.readAddresses(ctx, found[known:])
		}
	}
	if err != nil {
		return err
	}
	if err := r.readInternal(ctx); err != nil {
		return err
	}
	return r.readACLs(ctx)
}

// readAddresses reads addresses. lost reports whether one is gone that the record names.
func (r *reading) readAddresses(ctx context.Context, list candidates) (lost bool, err error) {
	for i := range list {
		a, found, err := r.readAddress(ctx, list[i])
		if err != nil {
			return lost, err
		}
		switch {
		case found:
			r.out.Actual.Addresses = append(r.out.Actual.Addresses, a)
		case list[i].recorded != nil:
			lost = true
			if !r.Desired.Absent {
				r.warn(plan.ReasonAddressLost, "address "+list[i].IP+" is gone from CloudStack")
			}
		}
	}
	return lost, nil
}
