// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// lostAnswerGrace is how long after its submission a call whose answer was lost
// may still arrive: a server works on a call after the client is gone.
const lostAnswerGrace = 2 * time.Minute

const cmdAssociate = "associateIpAddress"

func newUUID() string { return uuid.NewString() }

// save writes the records to the Service if they changed.
func (r *Reconciler) save(ctx context.Context, t *task) error {
	last := t.Spec.Records
	if t.mem.records != nil {
		last = *t.mem.records
	}
	records := r.sealed(t)
	if last.Equal(records) {
		return nil
	}
	if err := t.Records.Save(ctx, records); err != nil {
		return fmt.Errorf("record addresses on the Service: %w", err)
	}
	t.mem.records = &records
	return nil
}

// keepRecords makes the records say what is there.
func (r *Reconciler) keepRecords(ctx context.Context, t *task) error {
	if !r.applies() {
		return nil
	}
	t.records.Addresses = slices.DeleteFunc(t.records.Addresses, func(rec annotation.AddressRecord) bool { return t.mem.actual.find(rec.ID) == nil })
	return r.save(ctx, t)
}

// record is what the Service's record says of an address. One of a VPC without rules is bound to no tier; the
// record then names the tier that it is meant for.
func (t *task) record(a *Address) annotation.AddressRecord {
	rec := record(a, t.ownProject)
	if rec.NetworkID == "" {
		rec.NetworkID = t.wanted.NetworkID
	}
	return rec
}

func (t *task) setRecord(rec annotation.AddressRecord) {
	t.dropRecord(rec.ID)
	t.records.Addresses = append(t.records.Addresses, rec)
}

func (t *task) dropRecord(id string) {
	t.records.Addresses = slices.DeleteFunc(t.records.Addresses, func(x annotation.AddressRecord) bool { return x.ID == id })
}

func (t *task) dropPending(jobID string) {
	t.records.Pending = slices.DeleteFunc(t.records.Pending, func(p annotation.PendingAllocation) bool { return p.JobID == jobID })
}

// allocate acquires an address such that a crash at any point loses nothing:
// the job's id is on the Service before the call is made.
func (r *Reconciler) allocate(ctx context.Context, t *task, act Action) (annotation.AddressRecord, error) {
	var none annotation.AddressRecord
	if err := r.withinLimits(ctx, t); err != nil {
		return none, err
	}
	if t.mem.records == nil {
		// The framework's copy of the Service may be older than what another process recorded.
		live, err := t.Records.Load(ctx)
		if err != nil {
			return none, fmt.Errorf("read the Service's records: %w", err)
		}
		if !live.Equal(t.Spec.Records) {
			t.mem.records = &live
			return none, &WaitError{Message: "the Service's records were changed meanwhile", After: time.Second}
		}
	}
	p := annotation.PendingAllocation{JobID: r.options.NewJobID(), NetworkID: act.NetworkID, VPCID: act.VPCID, ProjectID: t.ownProject, IP: act.IP, Since: r.options.Clock.Now().UTC().Truncate(time.Second)}
	t.records.Pending = append(t.records.Pending, p)
	if err := r.save(ctx, t); err != nil {
		return none, err
	}
	request := cloudstack.AssociateIPRequest{NetworkID: act.NetworkID, ProjectID: t.project, Address: act.IP, CustomJobID: p.JobID}
	if act.VPCID != "" {
		request.NetworkID, request.VPCID = "", act.VPCID // a tier cannot be named: the first rule binds the address to it
	}
	submitted, err := r.associate(ctx, request)
	if err != nil {
		return none, r.allocationFailed(ctx, t, p, err)
	}
	return r.finishAllocation(ctx, t, p, submitted.ID)
}

func (r *Reconciler) associate(ctx context.Context, request cloudstack.AssociateIPRequest) (cloudstack.Submitted, error) {
	unlock, err := r.associating.Lock(ctx, request.ProjectID)
	if err != nil {
		return cloudstack.Submitted{}, err
	}
	defer unlock()
	return r.api.AssociateIP(ctx, request)
}

func (r *Reconciler) allocationFailed(ctx context.Context, t *task, p annotation.PendingAllocation, err error) error {
	var e *cloudstack.Error
	if errors.As(err, &e) && e.MayHaveHappened {
		return err // the record stays: the next sync asks what became of it
	}
	t.dropPending(p.JobID)
	serr := r.save(ctx, t)
	switch {
	case p.IP != "" && cloudstack.IsKind(err, cloudstack.KindCapacity):
		refusal := &RefusalError{ReasonAddressUnavailable, "address " + p.IP + " cannot be acquired: it is in use, or not in the zone's public range", "choose a free address of the zone, or one that the account holds in the nodes' network", 0}
		return errors.Join(refusal, serr)
	case cloudstack.IsKind(err, cloudstack.KindCapacity):
		t.notify(Notice{Warning: true, Reason: ReasonNoFreeAddress, Message: "CloudStack has no free public address; it is tried again"})
	case cloudstack.IsKind(err, cloudstack.KindLimit):
		t.notify(Notice{Warning: true, Reason: ReasonAddressLimit, Message: "the account's limit of public addresses is reached; release addresses or raise the limit"})
	}
	return errors.Join(err, serr)
}

// finishAllocation waits for the address, tags it and records it.
func (r *Reconciler) finishAllocation(ctx context.Context, t *task, p annotation.PendingAllocation, id string) (annotation.AddressRecord, error) {
	var none annotation.AddressRecord
	job, err := r.api.Wait(ctx, cmdAssociate, p.JobID)
	if id == "" && job != nil {
		id = job.InstanceID
	}
	if err != nil {
		if done, ferr := r.allocationJobFailed(ctx, t, p, job, id, err); !done {
			return none, ferr
		}
	}
	if id == "" {
		return none, fmt.Errorf("job %s of %s succeeded, but names no address", p.JobID, cmdAssociate)
	}
	tags, tagErr := r.api.CreateTags(ctx, ResourcePublicIP, []string{id}, Tags(t.clusters[0], t.Service))
	ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: t.project})
	if err != nil {
		return none, fmt.Errorf("read the acquired address %s: %w", id, err)
	}
	if len(ips) == 0 {
		return none, r.vanished(ctx, t, p, id)
	}
	if tagOwner(ips[0].Tags, t.clusters, t.Service) == Foreign || ips[0].Tags[TagKeptBy] != "" {
		t.dropPending(p.JobID)
		return none, errors.Join(fmt.Errorf("address %s, which %s was to acquire, belongs to somebody else by its tags", ips[0].Address, p.JobID), r.save(ctx, t))
	}
	if tagErr == nil {
		_, tagErr = r.api.Wait(ctx, "createTags", tags.JobID)
	}
	rec := annotation.AddressRecord{
		ID: id, IP: ips[0].Address, NetworkID: ips[0].AssociatedNetworkID, VPCID: p.VPCID, ProjectID: p.ProjectID, Allocated: true, Tagged: r.tagged(t, tagErr), Acquired: ips[0].Allocated,
		Sticky: slices.ContainsFunc(t.wanted.Rules, func(r Rule) bool { return r.Stickiness != nil }),
	}
	if t.wanted.Firewall {
		rec.Opened = wantedPorts(t.wanted.Rules).String()
	}
	if rec.NetworkID == "" {
		rec.NetworkID = p.NetworkID
	}
	t.dropPending(p.JobID)
	t.setRecord(rec)
	if err := r.save(ctx, t); err != nil {
		return none, err
	}
	t.notify(Notice{Reason: ReasonAddressAllocated, Message: "acquired address " + rec.IP})
	return rec, nil
}

// allocationJobFailed looks what a failed job left. done is true when the
// address is acquired all the same: a restart of the server breaks jobs off
// without undoing what they did.
func (r *Reconciler) allocationJobFailed(ctx context.Context, t *task, p annotation.PendingAllocation, job *cloudstack.Job, id string, err error) (done bool, _ error) {
	failed := cloudstack.IsKind(err, cloudstack.KindJobFailed)
	broken := !failed && job != nil && (job.Status == cloudstack.JobFailed || job.Status == cloudstack.JobCancelled)
	if !failed && !broken {
		return false, err // not known yet: the record stays
	}
	if broken && id != "" {
		q := cloudstack.PublicIPQuery{ID: id, ProjectID: t.project, AssociatedNetworkID: p.NetworkID}
		if p.VPCID != "" {
			q.AssociatedNetworkID, q.VPCID = "", p.VPCID
		}
		ips, lerr := r.api.ListPublicIPs(ctx, q)
		if lerr != nil && !cloudstack.IsNotFound(lerr) {
			return false, errors.Join(err, lerr)
		}
		if len(ips) > 0 {
			return true, nil
		}
	}
	if serr := r.freeStranded(ctx, t, id); serr != nil {
		return false, errors.Join(err, serr) // the record stays, to be asked for again
	}
	t.dropPending(p.JobID)
	return false, errors.Join(err, r.save(ctx, t))
}

// vanished handles an address that was acquired and is not there (any more).
func (r *Reconciler) vanished(ctx context.Context, t *task, p annotation.PendingAllocation, id string) error {
	if r.options.Clock.Since(p.Since) < lostAnswerGrace {
		return &WaitError{Message: "the acquired address " + id + " is not listed yet", After: time.Second}
	}
	t.dropPending(p.JobID)
	return errors.Join(fmt.Errorf("the acquired address %s was released by somebody else", id), r.save(ctx, t))
}

// tagged reads the outcome of createTags and learns from it.
func (r *Reconciler) tagged(t *task, err error) bool {
	switch {
	case err == nil:
		return true
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		if !r.noTags.Swap(true) {
			t.notify(Notice{Warning: true, Reason: ReasonTaggingForbidden, Message: "the role may not tag (createTags); names and the Services' annotations alone prove what is ours"})
		}
		return false
	default:
		return alreadyTagged(err)
	}
}

// alreadyTagged recognises the failure of a createTags that was done before.
func alreadyTagged(err error) bool {
	var e *cloudstack.Error
	return errors.As(err, &e) && e.Kind == cloudstack.KindJobFailed && strings.Contains(e.Text, "already on")
}

// freeStranded frees an address that a failed job left in state Allocating, which no default list shows.
func (r *Reconciler) freeStranded(ctx context.Context, t *task, id string) error {
	if id == "" {
		return nil
	}
	all := false
	ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: t.project, State: "Allocating", AllocatedOnly: &all})
	if err != nil && !cloudstack.IsNotFound(err) {
		return fmt.Errorf("look for the stranded address %s: %w", id, err)
	}
	if len(ips) == 0 {
		return nil
	}
	submitted, err := r.api.DisassociateIP(ctx, id)
	if err == nil {
		_, err = r.api.Wait(ctx, cmdDisassociate, submitted.JobID)
	}
	if err != nil {
		return fmt.Errorf("free the stranded address %s: %w", ips[0].Address, err)
	}
	return nil
}

// settle finds out what became of acquisitions without a known outcome.
func (r *Reconciler) settle(ctx context.Context, t *task) error {
	for _, p := range slices.Clone(t.records.Pending) {
		job, err := r.api.QueryJob(ctx, p.JobID)
		switch {
		case cloudstack.IsNotFound(err) && r.options.Clock.Since(p.Since) < lostAnswerGrace:
			continue // never arrived, or not yet: a new attempt has a new id, this one is asked for again
		case cloudstack.IsNotFound(err):
			t.dropPending(p.JobID)
		case err != nil && !cloudstack.IsKind(err, cloudstack.KindJobFailed):
			return fmt.Errorf("ask for the outcome of %s %s: %w", cmdAssociate, p.JobID, err)
		default:
			t.mem.actual = nil
			id := ""
			if job != nil {
				id = job.InstanceID
			}
			if _, err := r.finishAllocation(ctx, t, p, id); err != nil && slices.ContainsFunc(t.records.Pending, func(x annotation.PendingAllocation) bool { return x.JobID == p.JobID }) {
				return err // still not settled
			}
		}
		if err := r.save(ctx, t); err != nil {
			return err
		}
	}
	return nil
}
