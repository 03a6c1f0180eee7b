// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
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
	cluster             string
	wanted              Desired
	network             *Network
	// proven is set when the addresses themselves were read in this task, which releasing one asks for.
	proven bool
	read   bool // anything was read
	verify bool // members and extras count as old
	// everywhere makes the observation look for ACL items in all lists.
	everywhere bool
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

// begin takes the Service's lock. It resolves the project: the one in which the
// records say the Service's addresses are, else the one that the Service names.
func (r *Reconciler) begin(ctx context.Context, req Request) (*task, func(), error) {
	r.mu.Lock()
	mem, ok := r.services[req.Service.UID]
	if !ok {
		mem = newMemory()
		r.services[req.Service.UID] = mem
	}
	r.mu.Unlock()
	mem.Lock()
	t, err := r.newTask(ctx, req, mem)
	if err != nil {
		mem.Unlock()
		return nil, nil, err
	}
	return t, func() { t.release(); mem.Unlock() }, nil
}

func (r *Reconciler) newTask(ctx context.Context, req Request, mem *memory) (*task, error) {
	t := &task{
		Request: req, mem: mem, cluster: r.options.ClusterID(), notes: map[string]bool{},
		writtenCIDRs: map[string][]string{}, created: map[string]bool{},
	}
	// The process is the only writer of records: what it wrote is newer than any cached copy of the Service.
	if mem.records != nil {
		t.records = mem.records.Clone()
	} else {
		t.records = req.Spec.Records.Clone()
	}
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

// lock makes the task the only one that works on the addresses it knows: two
// creations on one address at once make the server sleep or fail, and what
// was read before a release must still hold when it is done.
func (r *Reconciler) lock(t *task) {
	var ids []string
	for _, rec := range t.records.Addresses {
		ids = append(ids, rec.ID)
	}
	if t.mem.actual != nil {
		for i := range t.mem.actual.Addresses {
			ids = append(ids, t.mem.actual.Addresses[i].ID)
		}
	}
	if t.unlock != nil && !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(t.locked, id) }) {
		return
	}
	t.release() // all at once, or two tasks may wait for each other
	t.locked, t.unlock = ids, r.addresses.Lock(ids)
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
		r.lock(t)
		before := slices.Clone(t.locked)
		if err := r.observe(ctx, t, true); err != nil {
			return err
		}
		r.lock(t)
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
	clear(t.mem.members)
	clear(t.mem.extras)
	return err
}
