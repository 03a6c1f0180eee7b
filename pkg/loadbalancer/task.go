// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// bulkAge is the maximum age of whole lists for the first look at a Service after a start.
const bulkAge = 30 * time.Second

// Memory is what is known about one Service in CloudStack; the zero Memory knows nothing. Losing it costs calls, but
// affects no result. Only one caller at a time may use it.
type Memory struct {
	// actual is the state as last read, with the changes made since; nil if it is not known. During a sync, it is in
	// plan.Subject.
	actual  *plan.Actual
	doubted bool      // actual must be read again before planning what the Service asks for
	readAt  time.Time // zero if this process has not read the Service yet
	changes apply.Memory
	// acls are the network ACL lists of actual. They remain when actual is no longer known, see skipsACL.
	acls   []plan.ACL
	doubts evidence.Doubts // addresses that one read has shown as absent
	// searched means that a Service without records was searched for in all projects.
	searched bool
	// done is the desired state that was last reached. tried is what plans have changed since then.
	done      *plan.Desired
	tried     plan.Changed
	whole     bool // the last attempt failed after a read with Whole, so the next one starts with such a read
	untagged  int  // number of syncs in a row that could not set tags
	addresses int  // number of addresses, as counted in the metric
}

// task is one sync of one Service.
type task struct {
	observe.Query // what to read, and the Service
	req           Request
	since         time.Time // start of the drift round: facts that were learned before it are checked again
	mem           *Memory
	// proven means that the addresses were read while they were locked, as a release requires.
	proven bool
	read   bool // something was read
	// tierAge is the maximum age of the description of a VPC tier, whose network ACL list may have been replaced; zero
	// accepts some minutes.
	tierAge time.Duration
	work    *apply.Work

	locked []string
	unlock []func()
}

// newTask returns a task.
func (r *Reconciler) newTask(req Request) *task {
	mem := cmp.Or(req.Memory, &Memory{})
	if mem.changes.Releasing == nil {
		mem.changes.Releasing, mem.doubts = map[string]time.Time{}, evidence.Doubts{}
	}

	t := &task{req: req, since: req.Since, mem: mem, Query: observe.Query{
		Subject: &plan.Subject{
			Facts:      req.Facts,
			Desired:    plan.Desired{Absent: req.Absent, KeepAddress: req.Spec.KeepIP},
			Actual:     mem.actual,
			Records:    req.Spec.Records.Clone(),
			Book:       r.Book,
			Project:    req.Project,
			OwnProject: req.OwnProject,
			Clusters:   r.ClusterIDs(),
		},
		Inventory: req.Inventory, NodeVMs: req.NodeVMs,
		Doubts: mem.doubts, Known: !mem.readAt.IsZero(), AllACLs: req.AllACLs, ACLs: mem.acls,
	}}

	if req.Absent {
		t.since = r.Clock.Now() // a removal does not depend on what was forbidden before
	}

	t.Denied = func(command string) bool { return r.role.Denied(t.Project, command, t.since) }
	t.work = r.applier.Begin(t.Subject, &mem.changes, req.Records)

	switch {
	case req.Since.After(mem.readAt):
		// All Services of the drift round share the lists.
		t.BulkSince, t.tierAge = req.Since, max(time.Second, r.Clock.Since(req.Since))
		t.Actual = nil
	case mem.readAt.IsZero() && (len(t.Records.Addresses) > 0 || len(req.Service.StatusIPs) > 0):
		// After a start, many Services are read at the same time and share lists.
		t.BulkSince = r.Clock.Now().Add(-bulkAge)
	}

	return t
}

// ElsewhereError means that what a Service has is in another project than the request says. Reconcile has changed
// nothing, and should be called again for that project.
type ElsewhereError struct {
	Project string // its id; empty for the account itself
}

func (e *ElsewhereError) Error() string { return "the Service has its address in project " + e.Project }

// findProject looks for the project of a Service that has lost its records, and perhaps the annotation with the project
// as well.
func (r *Reconciler) findProject(ctx context.Context, t *task) error {
	has, found, err := r.Observer.ProjectOf(ctx, t.Service.UID, t.Project)
	switch {
	case err != nil:
		return fmt.Errorf("look for the project of Service %s: %w", t.Service.Key(), err)
	case !found || has == t.Project:
		return nil
	case !t.Desired.Absent && !t.req.Keep:
		return plan.ProjectChanged(t.Spec.Project, has)
	}
	return &ElsewhereError{has}
}

// lock makes the task the only one that works on the addresses it knows. Two concurrent creations on one address make
// the server sleep or fail, and what was read before a release must still be true when the release is submitted.
func (r *Reconciler) lock(ctx context.Context, t *task) error {
	var ids []string
	for _, rec := range t.Records.Addresses {
		ids = append(ids, rec.ID)
	}

	if t.Actual != nil {
		for i := range t.Actual.Addresses {
			ids = append(ids, t.Actual.Addresses[i].ID)
		}
	}

	if t.Desired.Internal && t.Desired.Address != "" { // another Service may have, or get, a port of it
		ids = append(ids, plan.InternalID(t.Desired.NetworkID, t.Desired.Address))
	}

	if len(t.unlock) > 0 && !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(t.locked, id) }) {
		return nil
	}

	t.release() // lock all at the same time, or two tasks could wait for each other
	unlock, err := r.addresses.Lock(ctx, ids...)
	if err == nil {
		t.locked, t.unlock = ids, append(t.unlock, unlock)
	}

	return err
}

// release unlocks the addresses. They are no longer proven then.
func (t *task) release() {
	for _, unlock := range t.unlock {
		unlock()
	}
	t.locked, t.unlock, t.proven = nil, nil, false
}

// observe reads the state that concerns the Service into the task; with whole as completely as possible.
func (r *Reconciler) observe(ctx context.Context, t *task, whole bool) error {
	t.read, t.Whole = true, whole
	actual, begun, err := r.Observer.Observe(ctx, t.Query)
	if err != nil {
		return err
	}

	has := slices.ContainsFunc(actual.Addresses, func(a plan.Address) bool { return a.Ours() })
	if !has && t.Records.Empty() && t.Service.Seen && !t.mem.searched {
		if err := r.findProject(ctx, t); err != nil {
			return err
		}
		t.mem.searched = true
	}

	t.Known = true
	if r.skipsACL(t, t.Desired.ACLID) {
		t.Desired.ACLID = ""
	}
	t.Actual, t.mem.readAt, t.mem.doubted = actual, begun, actual.Unread != nil
	return nil
}

// young reports whether the remembered state can be used without reading again.
func (r *Reconciler) young(t *task) bool { return !t.mem.doubted && r.remembered(t) }

// remembered reports whether the state of the Service is known and not older than a drift period.
func (r *Reconciler) remembered(t *task) bool {
	return t.Actual != nil && (r.DriftPeriod == 0 || r.Clock.Since(t.mem.readAt) < r.DriftPeriod)
}

// look provides the actual state: from memory if that is recent, or else by reading. A deletion always reads, because
// it needs a proof.
func (r *Reconciler) look(ctx context.Context, t *task) error {
	if t.Desired.Absent {
		if !r.young(t) {
			t.Actual = nil
		}
		return r.prove(ctx, t)
	}

	if done := t.mem.done; done != nil && done.ACLID != "" && done.ACLID != t.Desired.ACLID {
		t.AllACLs = true // the list was replaced, so our items in the old one must be removed
	}

	if r.young(t) {
		address := t.Desired.Address == "" || plan.Target(t.Desired, *t.Actual) != nil
		aclKnown := t.Desired.ACLID == "" ||
			slices.ContainsFunc(t.Actual.ACLs, func(l plan.ACL) bool { return l.ListID == t.Desired.ACLID })
		// An address or list that was not read before has to be read first.
		if address && aclKnown {
			return nil
		}
	}

	// If the Service requests an address that it is not known to use, read as completely as possible at once.
	known := func(rec annotation.AddressRecord) bool { return rec.IP == t.Desired.Address }
	return r.observe(ctx, t,
		t.mem.whole ||
			t.Desired.Address != "" && !t.Desired.Internal && !slices.ContainsFunc(t.Records.Addresses, known))
}

// prove reads the complete state with calls of its own, while no other task works on it.
func (r *Reconciler) prove(ctx context.Context, t *task) error {
	t.BulkSince = time.Time{}
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
			t.proven = true
			return nil
		}
	}
}

// plan plans from the remembered state. It reads again, with proof, if the plan would release or disown an address.
func (r *Reconciler) plan(ctx context.Context, t *task) ([]plan.Step, error) {
	if t.req.Keep {
		return r.planMaintenance(ctx, t)
	}

	for {
		t.Actual.Consult(r.Book, t.Service)
		if refusal := plan.CheckCluster(*t.Actual, t.Clusters); refusal != nil {
			return nil, refusal
		}

		steps, target := plan.Plan(t.Desired, *t.Actual, r.limits(t))
		if plan.NeedsDetails(t.Desired, target) && !t.Whole {
			if err := r.observe(ctx, t, true); err != nil {
				return nil, err
			}
			continue
		}

		if _, known := r.role.Has("", plan.AbilityInPlace, t.since); plan.NeedsInPlace(steps) && !known {
			if err := r.askInPlace(ctx); err != nil {
				return nil, err
			}
			continue
		}

		refusal := cmp.Or(plan.CheckPorts(t.Desired, t.req.Grants),
			plan.Fits(t.Desired, target, t.Network, t.req.Grants), plan.CheckACL(t.Desired, *t.Actual, steps))
		if refusal != nil {
			return nil, refusal
		}

		if plan.PutsOn(steps) && r.Clock.Since(t.mem.readAt) > freshAge {
			// The address may have been acquired by another account since it was read.
			if err := r.observe(ctx, t, false); err != nil {
				return nil, err
			}
			continue
		}

		proof := slices.ContainsFunc(steps, func(s plan.Step) bool {
			return s.Kind == plan.ReleaseAddress || s.Kind == plan.DisownAddress
		})
		if proof && !t.proven {
			if err := r.prove(ctx, t); err != nil {
				return nil, err
			}
			continue
		}

		if fewer, err := r.limitKeepIP(ctx, t, steps); err != nil {
			return nil, err
		} else if fewer {
			continue
		}

		if err := t.mem.changes.DeletionsRunning(steps, *t.Actual, r.Clock.Now()); err != nil {
			return nil, err
		}

		if t.read {
			for _, n := range plan.Warnings(t.Facts, t.Desired, target) {
				t.Notify(n)
			}
		}

		return steps, nil
	}
}

// planMaintenance plans for a Service whose request is refused. It reads the state unless that is remembered, and once
// more before something is created.
func (r *Reconciler) planMaintenance(ctx context.Context, t *task) ([]plan.Step, error) {
	for read := !r.remembered(t); ; read = true {
		if read {
			t.Actual = nil // others may have changed the members of rules, which are not read while they are remembered
			if err := r.observe(ctx, t, true); err != nil {
				return nil, err
			}
			t.mem.doubted = true // the read did not cover what the Service asks for
		}
		if t.Actual.OtherCluster != "" {
			return nil, nil
		}

		t.Actual.Consult(r.Book, t.Service)
		desired, steps := plan.Refused(t.Facts, *t.Actual, t.req.MembersKnown, r.limits(t))
		if read || !plan.PutsOn(steps) || r.Clock.Since(t.mem.readAt) <= freshAge {
			t.Desired = desired
			return steps, nil
		}
	}
}

// askInPlace asks the server whether it can change rules in place. If the server does not say, the answer is no.
func (r *Reconciler) askInPlace(ctx context.Context) error {
	has, err := r.API.Client.HasParameter(ctx, "updateLoadBalancerRule", "cidrlist")
	if observe.Permitted(err) != nil {
		return fmt.Errorf("ask how the server changes load balancer rules: %w", err)
	}
	r.role.Note("", plan.AbilityInPlace, has)
	return nil
}
