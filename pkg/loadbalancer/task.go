// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
)

// task is one piece of work on one Service.
type task struct {
	Request
	mem     *memory
	records annotation.Records
	// project is the one to work in; ownProject the same if the Service names it, for the records.
	project, ownProject string
	clusters            []string // names of this cluster, the current one first
	wanted              Desired
	network             *Network
	neighbours          *neighbours // read when first needed
	former              bool        // records were signed when the cluster had another name, and tags may carry it
	// proven is set when the addresses themselves were read in this task, which releasing one asks for.
	proven bool
	read   bool // anything was read
	done   int  // changes of CloudStack that took effect
	tagErr error
	verify bool // members and extras count as old
	survey bool // the address's own properties and its port forwardings are read
	// everywhere makes the observation look for ACL items in all lists.
	everywhere bool
	// tierAge is how old the description of a VPC tier may be, as its network ACL list may have been replaced; zero for
	// some minutes.
	tierAge time.Duration
	// bulkSince allows an observation to use whole lists that were begun since; zero for none.
	bulkSince time.Time
	// writtenCIDRs are source ranges written, by rule id, until they were read back; created tells whose rules are new.
	writtenCIDRs map[string][]string
	created      map[string]bool
	notes        map[string]bool

	locked []string
	unlock func()
}

func (t *task) notify(n Notice) {
	if t.Notify == nil || t.notes[n.Message] {
		return
	}
	t.notes[n.Message] = true
	t.Notify(n)
}

// begin makes a task with what is remembered of the Service. It resolves the project: the one in which the
// records say the Service's addresses are, else the one that the Service names.
func (r *Reconciler) begin(ctx context.Context, req Request) (*task, error) {
	r.mu.Lock()
	mem, ok := r.services[req.Service.UID]
	if !ok {
		mem = newMemory()
		r.services[req.Service.UID] = mem
	}
	r.mu.Unlock()
	return r.newTask(ctx, req, mem)
}

func (r *Reconciler) newTask(ctx context.Context, req Request, mem *memory) (*task, error) {
	t := &task{
		Request: req, mem: mem, clusters: r.clusters(), notes: map[string]bool{},
		writtenCIDRs: map[string][]string{}, created: map[string]bool{},
	}
	// The process is the only writer of records: what it wrote is newer than any cached copy of the Service.
	stored := req.Spec.Records
	if mem.records != nil {
		stored = *mem.records
	}
	t.records = r.proven(t, stored)
	var err error
	t.ownProject = t.records.Project()
	if t.records.Empty() && req.Spec.Project != "" {
		if t.ownProject, err = r.options.Project(ctx, req.Spec.Project); err != nil {
			return nil, err
		}
	}
	if t.project = t.ownProject; t.project == "" {
		t.project, err = r.options.Project(ctx, "")
	}
	if !mem.known && (len(t.records.Addresses) > 0 || len(req.Service.StatusIPs) > 0) {
		// One of the many Services that a start looks at.
		t.bulkSince = r.options.Clock.Now().Add(-bulkAge)
	}
	return t, err
}

// proven are the records that this controller signed for the Service. What anybody else wrote there proves nothing.
func (r *Reconciler) proven(t *task, stored annotation.Records) annotation.Records {
	if r.options.Unguarded[GuardSeal] {
		return stored.Clone()
	}
	if r.options.Seal == nil {
		return annotation.Records{}
	}
	proven, unproven := stored.Proven(r.options.Seal, t.clusters, t.Service.UID)
	current, _ := stored.Proven(r.options.Seal, t.clusters[:1], t.Service.UID)
	t.former = len(current.Addresses) < len(proven.Addresses)
	if unproven > 0 {
		t.notify(Notice{Warning: true, Reason: ReasonUnverifiedRecord, Message: fmt.Sprintf(
			"ignored %s in the annotations %s and %s: not written by this controller with its current keys", counted(unproven, "record"), annotation.Addresses, annotation.Allocation)})
	}
	return proven
}

// sealed are the task's records with signatures, as they are stored.
func (r *Reconciler) sealed(t *task) annotation.Records {
	if r.options.Seal == nil {
		return t.records.Clone()
	}
	return t.records.Sealed(r.options.Seal, t.clusters[0], t.Service.UID)
}

// lock makes the task the only one that works on the addresses it knows: two
// creations on one address at once make the server sleep or fail, and what
// was read before a release must still hold when it is done.
func (r *Reconciler) lock(ctx context.Context, t *task) (err error) {
	var ids []string
	for _, rec := range t.records.Addresses {
		ids = append(ids, rec.ID)
	}
	if t.mem.actual != nil {
		for i := range t.mem.actual.Addresses {
			ids = append(ids, t.mem.actual.Addresses[i].ID)
		}
	}
	if t.wanted.Internal && t.wanted.Address != "" { // another Service may have a port of it, or be about to
		ids = append(ids, internalID(t.wanted.NetworkID, t.wanted.Address))
	}
	if t.unlock != nil && !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(t.locked, id) }) {
		return nil
	}
	t.release() // all at once, or two tasks may wait for each other
	if t.unlock, err = r.addresses.Lock(ctx, ids...); err == nil {
		t.locked = ids
	}
	return err
}

func (t *task) release() {
	if t.unlock != nil {
		t.unlock()
	}
	t.locked, t.unlock = nil, nil
}

// prove reads what is there while nobody else works on it.
func (r *Reconciler) prove(ctx context.Context, t *task) error {
	for {
		if err := r.lock(ctx, t); err != nil {
			return err
		}
		before := slices.Clone(t.locked)
		if err := r.observe(ctx, t, true); err != nil {
			return err
		}
		if err := r.lock(ctx, t); err != nil {
			return err
		}
		if slices.Equal(before, t.locked) {
			return nil
		}
	}
}

// forget drops the memory of a Service that has nothing left.
func (r *Reconciler) forget(uid string) {
	r.mu.Lock()
	delete(r.services, uid)
	r.mu.Unlock()
}

// failed forgets what is no longer certain. It passes errors through.
func (r *Reconciler) failed(t *task, err error) error {
	t.mem.actual = nil
	t.mem.done = nil
	t.mem.survey = t.survey
	clear(t.mem.members)
	clear(t.mem.extras)
	return err
}
