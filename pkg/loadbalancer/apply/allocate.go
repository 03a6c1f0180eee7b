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
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

const (
	cmdAssociate  = "associateIpAddress"
	cmdCreateTags = "createTags"
)

// allocate acquires an address, or takes one of a tier.
func (r *run) allocate(ctx context.Context, s plan.Step, act plan.AllocateAddress) error {
	var rec annotation.AddressRecord
	var err error
	if act.Internal {
		// The intent is what a crash leaves: by it the tier is looked through for what the Service has there.
		rec = annotation.AddressRecord{ID: plan.InternalID(act.NetworkID, act.IP), IP: act.IP, NetworkID: act.NetworkID, ProjectID: r.OwnProject, Allocated: true, Internal: true}
		r.Records.set(rec)
		err = r.Records.Save(ctx)
	} else {
		rec, err = r.acquire(ctx, r.Work, act)
	}
	if err != nil {
		return err
	}
	r.effect(s, plan.Outcome{ID: rec.ID, IP: rec.IP})
	a := r.Actual.Find(rec.ID)
	a.Acquired, a.HasStickiness, a.FirewallPorts, a.ForwardPorts = rec.Acquired, rec.Sticky, plan.ParsePorts(rec.Opened), plan.ParsePorts(rec.Forwarded)
	if act.Internal {
		return nil
	}
	// The rules need not wait for the tags.
	return r.tagAcquired(ctx, a)
}

// tagAcquired tags an address that was acquired in this run.
func (r *run) tagAcquired(ctx context.Context, a *plan.Address) error {
	on := plan.OnAddress{AddressID: a.ID, IP: a.IP}
	s := plan.Step{Action: plan.TagAddress{OnAddress: on}}
	n := len(r.jobs)
	err := r.tag(ctx, s, plan.ResourcePublicIP, []string{a.ID}, plan.Tags(r.Clusters[0], r.Service), func(err error) error {
		switch {
		case r.tagged(r.Work, err):
			*r.Actual = s.Effect(*r.Actual, plan.Outcome{}) // part of the acquisition: not counted as a change of its own
		case ctx.Err() != nil:
			return err
		default:
			return nil // the next sync tags it
		}
		r.Records.set(r.record(r.on(on)))
		return r.Records.Save(ctx)
	})
	for _, j := range r.jobs[n:] {
		j.late = true
	}
	return err
}

// acquire acquires an address such that a crash at any point loses nothing:
// the job's id is on the Service before the call is made.
func (a *Applier) acquire(ctx context.Context, w *Work, act plan.AllocateAddress) (annotation.AddressRecord, error) {
	var none annotation.AddressRecord
	if err := w.MayAcquire(ctx); err != nil {
		return none, err
	}
	if w.Memory.records == nil {
		// The framework's copy of the Service may be older than what another process recorded.
		live, err := w.Records.Store.Load(ctx)
		if err != nil {
			return none, fmt.Errorf("read the Service's records: %w", err)
		}
		if !live.Equal(w.Records.stored) {
			w.Memory.records = &live
			return none, &plan.WaitError{Message: "the Service's records were changed meanwhile", After: time.Second}
		}
	}
	p := annotation.PendingAllocation{JobID: a.NewJobID(), NetworkID: act.NetworkID, VPCID: act.VPCID, ProjectID: w.OwnProject, IP: act.IP, Since: a.Clock.Now().UTC().Truncate(time.Second)}
	w.Records.Pending = append(w.Records.Pending, p)
	if err := w.Records.Save(ctx); err != nil {
		return none, err
	}
	request := cloudstack.AssociateIPRequest{NetworkID: act.NetworkID, ProjectID: w.Project, Address: act.IP, CustomJobID: p.JobID}
	if act.VPCID != "" {
		request.NetworkID, request.VPCID = "", act.VPCID // a tier cannot be named: the first rule binds the address to it
	}
	submitted, err := a.associate(ctx, request)
	if err != nil {
		return none, a.allocationFailed(ctx, w, p, err)
	}
	id, job, err := a.allocated(ctx, w, p, submitted.ID)
	if err != nil {
		return none, err
	}
	if job != nil && job.Acquired != nil && job.Acquired.ID == id && job.Acquired.Address != "" {
		return a.recordAcquired(ctx, w, p, job.Acquired, false)
	}
	ip, err := a.readAcquired(ctx, w, p, id)
	if err != nil {
		return none, err
	}
	return a.recordAcquired(ctx, w, p, ip, false)
}

func (a *Applier) associate(ctx context.Context, request cloudstack.AssociateIPRequest) (cloudstack.Submitted, error) {
	unlock, err := a.associating.Lock(ctx, request.ProjectID)
	if err != nil {
		return cloudstack.Submitted{}, err
	}
	defer unlock()
	return a.API.AssociateIP(ctx, request)
}

func (a *Applier) allocationFailed(ctx context.Context, w *Work, p annotation.PendingAllocation, err error) error {
	var e *cloudstack.Error
	if errors.As(err, &e) && e.MayHaveHappened {
		return err // the record stays: the next sync asks what became of it
	}
	w.Records.dropPending(p.JobID)
	serr := w.Records.Save(ctx)
	switch {
	case p.IP != "" && cloudstack.IsKind(err, cloudstack.KindCapacity):
		refusal := &plan.RefusalError{
			Reason: plan.ReasonAddressUnavailable, Message: "address " + p.IP + " cannot be acquired: it is in use, or not in the zone's public range",
			Remedy: "choose a free address of the zone, or one that the account holds in the nodes' network",
		}
		return errors.Join(refusal, serr)
	case cloudstack.IsKind(err, cloudstack.KindCapacity):
		w.Notify(plan.Notice{Warning: true, Reason: plan.ReasonNoFreeAddress, Message: "CloudStack has no free public address; it is tried again"})
	case cloudstack.IsKind(err, cloudstack.KindLimit):
		w.Notify(plan.Notice{Warning: true, Reason: plan.ReasonAddressLimit, Message: "the account's limit of public addresses is reached; release addresses or raise the limit"})
	}
	return errors.Join(err, serr)
}

// allocated waits for the job of an acquisition. It returns the address's id.
func (a *Applier) allocated(ctx context.Context, w *Work, p annotation.PendingAllocation, id string) (string, *cloudstack.Job, error) {
	due := usually(cmdAssociate)
	job, err := a.API.Await(ctx, cloudstack.Await{Command: cmdAssociate, JobID: p.JobID, Due: &due})
	if id == "" && job != nil {
		id = job.InstanceID
	}
	if err != nil {
		if done, ferr := a.allocationJobFailed(ctx, w, p, job, id, err); !done {
			return "", nil, ferr
		}
	}
	if id == "" {
		return "", nil, fmt.Errorf("job %s of %s succeeded, but names no address", p.JobID, cmdAssociate)
	}
	return id, job, nil
}

// finishAllocation waits for an address that was asked for at another time, tags it and records it. It may have been
// released since, and be somebody else's.
func (a *Applier) finishAllocation(ctx context.Context, w *Work, p annotation.PendingAllocation, id string) error {
	id, _, err := a.allocated(ctx, w, p, id)
	if err != nil {
		return err
	}
	tags, tagErr := a.API.CreateTags(ctx, plan.ResourcePublicIP, []string{id}, plan.Tags(w.Clusters[0], w.Service))
	ip, err := a.readAcquired(ctx, w, p, id)
	if err != nil {
		return err
	}
	if tagErr == nil {
		_, tagErr = a.API.Wait(ctx, cmdCreateTags, tags.JobID)
	}
	_, err = a.recordAcquired(ctx, w, p, ip, a.tagged(w, tagErr))
	return err
}

// readAcquired reads an address that was acquired.
func (a *Applier) readAcquired(ctx context.Context, w *Work, p annotation.PendingAllocation, id string) (*cloudstack.PublicIP, error) {
	ips, err := a.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: w.Project})
	if err != nil {
		return nil, fmt.Errorf("read the acquired address %s: %w", id, err)
	}
	if len(ips) == 0 {
		return nil, a.vanished(ctx, w, p, id)
	}
	if plan.TagOwner(ips[0].Tags, w.Clusters, w.Service) == plan.Foreign || ips[0].Tags[plan.TagKeptBy] != "" {
		w.Records.dropPending(p.JobID)
		return nil, errors.Join(fmt.Errorf("address %s, which %s was to acquire, belongs to somebody else by its tags", ips[0].Address, p.JobID), w.Records.Save(ctx))
	}
	return &ips[0], nil
}

// recordAcquired records an acquired address on the Service.
func (a *Applier) recordAcquired(ctx context.Context, w *Work, p annotation.PendingAllocation, ip *cloudstack.PublicIP, tagged bool) (annotation.AddressRecord, error) {
	var none annotation.AddressRecord
	rec := annotation.AddressRecord{
		ID: ip.ID, IP: ip.Address, NetworkID: ip.AssociatedNetworkID, VPCID: p.VPCID, ProjectID: p.ProjectID, Allocated: true, Tagged: tagged, Acquired: ip.Allocated,
		Sticky: w.Desired.HasStickiness(),
	}
	if w.Desired.Firewall {
		rec.Opened = w.Desired.Opened().String()
	}
	rec.Forwarded = w.Desired.Forwarded().String()
	if rec.NetworkID == "" {
		rec.NetworkID = p.NetworkID
	}
	w.Records.dropPending(p.JobID)
	w.Records.set(rec)
	if err := w.Records.Save(ctx); err != nil {
		return none, err
	}
	w.Notify(plan.Notice{Reason: plan.ReasonAddressAllocated, Message: "acquired address " + rec.IP})
	return rec, nil
}

// allocationJobFailed looks what a failed job left. done is true when the
// address is acquired all the same: a restart of the server breaks jobs off
// without undoing what they did.
func (a *Applier) allocationJobFailed(ctx context.Context, w *Work, p annotation.PendingAllocation, job *cloudstack.Job, id string, err error) (done bool, _ error) {
	failed := cloudstack.IsKind(err, cloudstack.KindJobFailed)
	broken := !failed && job != nil && (job.Status == cloudstack.JobFailed || job.Status == cloudstack.JobCancelled)
	if !failed && !broken {
		return false, err // not known yet: the record stays
	}
	if broken && id != "" {
		q := cloudstack.PublicIPQuery{ID: id, ProjectID: w.Project, AssociatedNetworkID: p.NetworkID}
		if p.VPCID != "" {
			q.AssociatedNetworkID, q.VPCID = "", p.VPCID
		}
		ips, lerr := a.API.ListPublicIPs(ctx, q)
		if lerr != nil && !cloudstack.IsNotFound(lerr) {
			return false, errors.Join(err, lerr)
		}
		if len(ips) > 0 {
			return true, nil
		}
	}
	if serr := a.freeStranded(ctx, w, id); serr != nil {
		return false, errors.Join(err, serr) // the record stays, to be asked for again
	}
	w.Records.dropPending(p.JobID)
	return false, errors.Join(err, w.Records.Save(ctx))
}

// vanished handles an address that was acquired and is not there (any more).
func (a *Applier) vanished(ctx context.Context, w *Work, p annotation.PendingAllocation, id string) error {
	if a.Clock.Since(p.Since) < plan.LostAnswerGrace {
		return &plan.WaitError{Message: "the acquired address " + id + " is not listed yet", After: time.Second}
	}
	w.Records.dropPending(p.JobID)
	return errors.Join(fmt.Errorf("the acquired address %s was released by somebody else", id), w.Records.Save(ctx))
}

// freeStranded frees an address that a failed job left in state Allocating, which no default list shows.
func (a *Applier) freeStranded(ctx context.Context, w *Work, id string) error {
	if id == "" {
		return nil
	}
	all := false
	ips, err := a.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: w.Project, State: "Allocating", AllocatedOnly: &all})
	if err != nil && !cloudstack.IsNotFound(err) {
		return fmt.Errorf("look for the stranded address %s: %w", id, err)
	}
	if len(ips) == 0 {
		return nil
	}
	submitted, err := a.API.DisassociateIP(ctx, id)
	if err == nil {
		_, err = a.API.Wait(ctx, cmdDisassociate, submitted.JobID)
	}
	if err != nil {
		return fmt.Errorf("free the stranded address %s: %w", ips[0].Address, err)
	}
	return nil
}

// Settle finds out what became of acquisitions without a known outcome. changed reports whether one of them ended.
func (a *Applier) Settle(ctx context.Context, w *Work) (changed bool, err error) {
	for _, p := range slices.Clone(w.Records.Pending) {
		job, err := a.API.QueryJob(ctx, p.JobID)
		switch {
		case cloudstack.IsNotFound(err) && a.Clock.Since(p.Since) < plan.LostAnswerGrace:
			continue // never arrived, or not yet: a new attempt has a new id, this one is asked for again
		case cloudstack.IsNotFound(err):
			w.Records.dropPending(p.JobID)
		case err != nil && !cloudstack.IsKind(err, cloudstack.KindJobFailed):
			return changed, fmt.Errorf("ask for the outcome of %s %s: %w", cmdAssociate, p.JobID, err)
		default:
			changed = true
			id := ""
			if job != nil {
				id = job.InstanceID
			}
			if err := a.finishAllocation(ctx, w, p, id); err != nil && slices.ContainsFunc(w.Records.Pending, func(x annotation.PendingAllocation) bool { return x.JobID == p.JobID }) {
				return changed, err // still not settled
			}
		}
		if err := w.Records.Save(ctx); err != nil {
			return changed, err
		}
	}
	return changed, nil
}
