// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/plural"
)

// bulkAge is how old whole lists may be for the first look at a Service after a start.
const bulkAge = 30 * time.Second

// memory is what is known of one Service. Only the holder of the Service's Turn uses it.
type memory struct {
	// actual is the state as last read and since written; nil when not known.
	actual  *plan.Actual
	readAt  time.Time
	rules   observe.Memory
	changes apply.Memory
	// done is the desired state that was last reached.
	done     *plan.Desired
	aclID    string // the network ACL list that was last brought to the desired state
	survey   bool   // the last attempt failed, and had to look closely
	asked    string // the address that was last asked for by name
	untagged int    // syncs in a row that could not tag
}

func newMemory() *memory { return &memory{rules: observe.NewMemory(), changes: apply.NewMemory()} }

// task is one piece of work on one Service.
type task struct {
	observe.Query // how to look, and with it the Service
	refresh       func(ctx context.Context) (members, reach []plan.Member, err error)
	grants        plan.Grants
	mem           *memory
	records       *apply.Records
	network       *plan.Network
	// proven is set when the addresses themselves were read in this task, which releasing one asks for.
	proven bool
	read   bool // anything was read
	// tierAge is how old the description of a VPC tier may be, as its network ACL list may have been replaced; zero for
	// some minutes.
	tierAge time.Duration
	work    *apply.Work // nil where nothing is changed

	locked []string
	unlock func()
}

// once passes each notice on once; notify may be nil.
func once(notify func(plan.Notice)) func(plan.Notice) {
	noted := map[string]bool{}
	return func(n plan.Notice) {
		if notify != nil && !noted[n.Message] {
			noted[n.Message] = true
			notify(n)
		}
	}
}

// newTask resolves the project: the one in which the records say the Service's addresses are, else the one that the
// Service names.
func (p *Planner) newTask(ctx context.Context, req Request, mem *memory) (*task, error) {
	t := &task{mem: mem, refresh: req.Refresh, grants: req.Grants, Query: observe.Query{
		Subject: &plan.Subject{
			Service: req.Service, Spec: req.Spec, Members: req.Members, Reach: req.Reach, Unfit: req.Unfit, Clusters: p.clusters(), Written: map[string]plan.Written{}, Notify: once(req.Notify),
		},
		Releasing: mem.changes.Releasing, Memory: &mem.rules,
	}}
	t.Spec.Mode = p.mode(t.Spec)
	var known *observe.Neighbours
	t.Neighbours = func(ctx context.Context) (*observe.Neighbours, error) {
		if known == nil {
			list, err := p.options.Neighbours(ctx)
			if err != nil {
				return nil, fmt.Errorf("list the Services that may share an address: %w", err)
			}
			known = observe.IndexNeighbours(list)
		}
		return known, nil
	}
	t.records = mem.changes.Records(req.Spec.Records)
	t.records.Store, t.records.Sign = req.Records, func(r annotation.Records) annotation.Records {
		if p.options.Seal == nil {
			return r.Clone()
		}
		return r.Sealed(p.options.Seal, t.Clusters[0], t.Service.UID)
	}
	t.records.Records = p.signed(t, t.records.Stored())
	var err error
	own := t.records.Project()
	if t.records.Empty() && req.Spec.Project != "" {
		if own, err = p.options.Project(ctx, req.Spec.Project); err != nil {
			return nil, err
		}
	}
	t.Project, t.OwnProject = own, own
	if own == "" {
		t.Project, err = p.options.Project(ctx, "")
	}
	if !req.BulkSince.IsZero() {
		t.BulkSince = req.BulkSince
	} else if !mem.rules.Known() && (len(t.records.Addresses) > 0 || len(req.Service.StatusIPs) > 0) {
		// One of the many Services that a start looks at.
		t.BulkSince = p.options.Clock.Now().Add(-bulkAge)
	}
	return t, err
}

// signed are the records that this controller signed for the Service. What anybody else wrote there proves nothing.
func (p *Planner) signed(t *task, stored annotation.Records) annotation.Records {
	if p.unguarded(plan.GuardSeal) {
		return stored.Clone()
	}
	if p.options.Seal == nil {
		return annotation.Records{}
	}
	proven, unproven := stored.Proven(p.options.Seal, t.Clusters, t.Service.UID)
	current, _ := stored.Proven(p.options.Seal, t.Clusters[:1], t.Service.UID)
	t.Former = len(current.Addresses) < len(proven.Addresses)
	if unproven > 0 {
		t.Notify(plan.Notice{Warning: true, Reason: plan.ReasonUnverifiedRecord, Message: fmt.Sprintf(
			"ignored %s in the annotations %s and %s: not written by this controller with its current keys", plural.Count(unproven, "record"), annotation.Addresses, annotation.Allocation)})
	}
	return proven
}

// lock makes the task the only one that works on the addresses it knows: two
// creations on one address at once make the server sleep or fail, and what
// was read before a release must still hold when it is done.
func (p *Planner) lock(ctx context.Context, t *task) (err error) {
	var ids []string
	for _, rec := range t.records.Addresses {
		ids = append(ids, rec.ID)
	}
	if t.mem.actual != nil {
		for i := range t.mem.actual.Addresses {
			ids = append(ids, t.mem.actual.Addresses[i].ID)
		}
	}
	if t.Desired.Internal && t.Desired.Address != "" { // another Service may have a port of it, or be about to
		ids = append(ids, plan.InternalID(t.Desired.NetworkID, t.Desired.Address))
	}
	if t.unlock != nil && !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(t.locked, id) }) {
		return nil
	}
	t.release() // all at once, or two tasks may wait for each other
	if t.unlock, err = p.addresses.Lock(ctx, ids...); err == nil {
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

// prove reads what CloudStack has while nobody else works on it.
func (p *Planner) prove(ctx context.Context, t *task) error {
	for {
		if err := p.lock(ctx, t); err != nil {
			return err
		}
		before := slices.Clone(t.locked)
		if err := p.observe(ctx, t, true); err != nil {
			return err
		}
		if err := p.lock(ctx, t); err != nil {
			return err
		}
		if slices.Equal(before, t.locked) {
			return nil
		}
	}
}

// absent makes the task delete everything of the Service's.
func (t *task) absent(keepAddress bool) {
	t.Desired = plan.Desired{Absent: true, KeepAddress: keepAddress}
	t.Forwards = t.Forwards || plan.Facts{Service: t.Service, Spec: t.Spec}.Forwards()
}

// nobodyFit says that forwarded ports lead to nobody who could serve; nil when that is not so.
func (t *task) nobodyFit() *plan.Notice { return plan.NobodyFit(t.Desired, t.Members, t.Unfit) }
