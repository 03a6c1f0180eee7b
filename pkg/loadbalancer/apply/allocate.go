// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// allocationGrace is how long the deletion of a Service waits for a running acquisition.
const allocationGrace = 10 * time.Minute

const (
	cmdAssociate  = "associateIpAddress"
	cmdCreateTags = "createTags"
)

// allocate acquires a public address, or uses one of a tier.
func (w *Work) allocate(ctx context.Context, s plan.Step) error {
	got := annotation.AddressRecord{ID: plan.InternalID(s.NetworkID, s.IP), IP: s.IP, Allocated: true}
	if !s.Internal {
		var err error
		if got, err = w.acquire(ctx, s); err != nil {
			return err
		}
	}

	w.effect(s, plan.Outcome{ID: got.ID, IP: got.IP})
	address := w.Actual.Find(got.ID)
	address.Acquired, address.Allocated = evidence.InstantOf(got.Acquired), got.Allocated
	w.acquired = got.ID

	// For a tier's address, the record shows an intent: after a crash, the tier is searched for internal load balancers
	// of the Service.
	return w.RecordServing(ctx, false)
}

// acquire acquires an address so that a crash at any point loses no address: the id of the job is saved on the Service
// before the call is made. The caller has to save the returned record.
func (w *Work) acquire(ctx context.Context, s plan.Step) (none annotation.AddressRecord, err error) {
	reserved, err := w.reserved(ctx, s.IP)
	if err != nil {
		return none, err
	}

	p := annotation.PendingAllocation{
		JobID:     uuid.NewString(),
		NetworkID: s.NetworkID,
		VPCID:     s.VPCID,
		ProjectID: w.OwnProject,
		IP:        s.IP,
		Reserved:  reserved,
		Since:     w.Clock.Now().UTC().Truncate(time.Second),
	}

	w.Records.Pending = append(w.Records.Pending, p)
	// The cached Service may be older than what another process has recorded.
	if err := w.save(ctx, true); err != nil {
		w.deletePending(p.JobID)
		return none, err
	}

	request := cloudstack.AssociateIPRequest{
		NetworkID:   s.NetworkID,
		ProjectID:   w.Project,
		Address:     s.IP,
		CustomJobID: p.JobID,
	}
	if s.VPCID != "" {
		// The call accepts no tier. The first rule binds the address to it.
		request.NetworkID, request.VPCID = "", s.VPCID
	}

	submitted, err := w.associate(ctx, w.Service.Namespace, request)
	if err != nil {
		return none, w.allocationFailed(ctx, p, err)
	}
	return w.awaitAddress(ctx, p, submitted.ID)
}

// reserved reports whether the account has reserved an address. Such an address is never released, because its release
// also ends the reservation, and anybody could take it before it is reserved again.
func (w *Work) reserved(ctx context.Context, ip string) (bool, error) {
	if ip == "" {
		return false, nil // CloudStack chooses one of the free addresses
	}
	found, err := w.API.ListPublicIPs(ctx, cloudstack.PublicIPQuery{
		Address: ip, ProjectID: w.Project, State: plan.StateReserved, AllocatedOnly: new(false),
	})
	return len(found) > 0, err
}

// associate calls associateIpAddress, one call at a time for each project. Only one Service of each namespace waits for
// the lock, so that many Services of one namespace do not delay those of others.
func (w *Work) associate(
	ctx context.Context, namespace string, request cloudstack.AssociateIPRequest,
) (cloudstack.Submitted, error) {
	for _, key := range []string{request.ProjectID + " " + namespace, request.ProjectID} {
		unlock, err := w.associating.Lock(ctx, key)
		if err != nil {
			return cloudstack.Submitted{}, err
		}
		defer unlock()
	}
	return w.API.Client.AssociateIP(ctx, request)
}

func (w *Work) allocationFailed(ctx context.Context, p annotation.PendingAllocation, err error) error {
	var e *cloudstack.Error
	if errors.As(err, &e) && e.MayHaveHappened {
		return err // the record stays, and the next sync asks for the result
	}

	w.deletePending(p.JobID)
	serr := w.save(ctx, false)
	switch {
	case p.IP != "" && cloudstack.IsKind(err, cloudstack.KindCapacity):
		refusal := plan.Refuse(plan.ReasonAddressUnavailable,
			"address "+p.IP+" cannot be acquired: CloudStack says: "+e.Text,
			"it may be in use, reserved by another account, or not in the zone's public range; choose a free address "+
				"of the zone, or one that the account holds in the nodes' network")
		return errors.Join(refusal, serr)
	case cloudstack.IsKind(err, cloudstack.KindCapacity):
		w.Notify(*plan.Warning(plan.ReasonNoFreeAddress,
			"CloudStack assigned no public address: "+e.Text+"; it is tried again"))
	case cloudstack.IsKind(err, cloudstack.KindLimit):
		w.Notify(*plan.Warning(plan.ReasonAddressLimit,
			"the account's limit of public addresses is reached: "+e.Text+"; release addresses or raise the limit"))
	}

	return errors.Join(err, serr)
}

// awaitAddress waits for an acquisition and records its address. If this sync made the call, id is the address in its
// answer. Otherwise id is empty: the call was made earlier, and the address may have been released since and belong to
// somebody else.
func (w *Work) awaitAddress(
	ctx context.Context, p annotation.PendingAllocation, id string,
) (none annotation.AddressRecord, err error) {
	due, now := usually(cmdAssociate), id != ""
	job, err := w.alone(ctx, p.JobID, cloudstack.Await{Command: cmdAssociate, Age: w.Clock.Since(p.Since), Due: &due},
		func() (cloudstack.Submitted, error) {
			return cloudstack.Submitted{JobID: p.JobID}, nil // the call was made already
		})

	if id == "" && job != nil {
		id = job.InstanceID
	}

	ended := cloudstack.IsKind(err, cloudstack.KindJobFailed) ||
		job != nil && (job.Status == cloudstack.JobFailed || job.Status == cloudstack.JobCancelled)
	var ip *cloudstack.PublicIP
	switch {
	case err != nil && !ended:
		return none, err // not known yet, so the record stays
	case err == nil && id == "":
		return none, fmt.Errorf("job %s of %s succeeded, but names no address", p.JobID, cmdAssociate)
	case err == nil && now && job != nil && job.Acquired != nil && job.Acquired.ID == id && job.Acquired.Address != "":
		ip = job.Acquired
	default:
		if ip, err = w.unrecorded(ctx, p, id, err); err != nil {
			return none, err
		}
	}

	return w.recordAddress(p, ip), nil
}

// recordAddress records an address that was acquired.
func (w *Work) recordAddress(p annotation.PendingAllocation, ip *cloudstack.PublicIP) annotation.AddressRecord {
	rec := annotation.AddressRecord{
		ID:        ip.ID,
		IP:        ip.Address,
		NetworkID: cmp.Or(ip.AssociatedNetworkID, p.NetworkID),
		VPCID:     p.VPCID,
		ProjectID: p.ProjectID,
		Allocated: !p.Reserved,
		Acquired:  ip.Allocated,
	}

	w.deletePending(p.JobID)
	w.record(rec)
	message := "acquired address " + rec.IP
	if p.Reserved {
		message += ", which the account had reserved: it is not released with the Service"
	}
	w.Notify(plan.Notice{Reason: plan.ReasonAddressAllocated, Message: message})
	return rec
}

// unrecorded returns the address that a job has acquired, or why there is none; failure is the error of the job. The
// result of the job alone proves nothing: a restart of the server aborts jobs without undoing their changes. A failed
// job may have acquired the address, or left it in state Allocating, in which case it has to be freed.
func (w *Work) unrecorded(
	ctx context.Context, p annotation.PendingAllocation, id string, failure error,
) (*cloudstack.PublicIP, error) {
	ip := &cloudstack.PublicIP{}
	if id != "" {
		ips, err := w.API.ListPublicIPs(ctx,
			cloudstack.PublicIPQuery{ID: id, ProjectID: w.Project, AllocatedOnly: new(false)})
		if err != nil && !cloudstack.IsNotFound(err) {
			// Return without removing the record.
			return nil, errors.Join(failure, fmt.Errorf("read the acquired address %s: %w", id, err))
		}
		if len(ips) > 0 {
			ip = &ips[0]
		}
	}

	use := w.Book.Use(ip.Address, evidence.InstantOf(ip.Allocated), "")
	_, others := use.Users(w.Service.UID)
	owner := plan.TagOwner(ip.Tags, w.Clusters, w.Service)
	foreign := owner != plan.Owned && owner != plan.Unknown ||
		ip.Tags[plan.TagKeptBy] != "" ||
		w.Denied(cmdCreateTags) && others

	there := ip.State == plan.StateAllocated
	if failure != nil {
		// The job acquires the address when it starts. An address that was acquired later belongs to somebody else.
		late := evidence.InstantOf(ip.Allocated).Time().Sub(p.Since) > plan.ClockSkew
		there = there &&
			!late &&
			(p.VPCID != "" && ip.VPCID == p.VPCID || p.VPCID == "" && ip.AssociatedNetworkID == p.NetworkID)
	}

	switch {
	case there && !foreign:
		return ip, nil

	case failure != nil && ip.State == plan.StateAllocating:
		err := w.wait(ctx, cmdDisassociate, []string{id},
			func() (cloudstack.Submitted, error) { return w.API.Client.DisassociateIP(ctx, id) })
		if err != nil {
			// The record stays, so that the next sync tries again.
			return nil, errors.Join(failure, fmt.Errorf("release the unused address %s: %w", ip.Address, err))
		}
	case failure != nil:
	case there:
		failure = fmt.Errorf("address %s, which %s should have acquired, belongs to somebody else by its "+
			"tags", ip.Address,
			p.JobID)
	case w.Clock.Since(p.Since) < plan.LostAnswerGrace:
		return nil, &plan.WaitError{Message: "the acquired address " + id + " is not listed yet", After: time.Second}
	default:
		failure = fmt.Errorf("the acquired address %s was released by somebody else", id)
	}
	w.deletePending(p.JobID)
	return nil, errors.Join(failure, w.save(ctx, false))
}

// settlePending finds out the results of acquisitions whose jobs were not seen to end. changed reports whether one of
// them ended.
func (w *Work) settlePending(ctx context.Context) (changed bool, err error) {
	for _, p := range slices.Clone(w.Records.Pending) {
		given := w.Desired.Absent && w.Clock.Since(p.Since) >= allocationGrace
		if j := w.extraJobs[p.JobID]; j != nil && !j.ended() && !given {
			return changed, w.waiting(lookAgain) //nolint:contextcheck // a job wakes without ctx
		}

		job, err := w.API.Client.QueryJob(ctx, p.JobID)

		switch {
		case err == nil && job.Status == cloudstack.JobPending && given:
			// The Service is being deleted, so the result of the job does not matter. If the job has acquired an
			// address, release it.
			changed = true
			var ip *cloudstack.PublicIP
			if ip, err = w.unrecorded(ctx, p, job.InstanceID,
				fmt.Errorf("job %s of %s has not ended", p.JobID, cmdAssociate)); err == nil {
				w.recordAddress(p, ip)
			}

		case cloudstack.IsNotFound(err) && w.Clock.Since(p.Since) < plan.LostAnswerGrace:
			// The call did not arrive, or has not arrived yet. A new attempt uses a new id, and this one is checked
			// again.
			continue
		case cloudstack.IsNotFound(err):
			w.deletePending(p.JobID)
		case err != nil && !cloudstack.IsKind(err, cloudstack.KindJobFailed):
			return changed, fmt.Errorf("ask for the outcome of %s %s: %w", cmdAssociate, p.JobID, err)
		default:
			changed = true
			_, err = w.awaitAddress(ctx, p, "")
		}

		pending := slices.ContainsFunc(w.Records.Pending,
			func(x annotation.PendingAllocation) bool { return x.JobID == p.JobID })
		if err != nil && pending {
			return changed, err // the result is still not known
		}

		if err := w.save(ctx, false); err != nil {
			return changed, err
		}
	}

	return changed, nil
}
