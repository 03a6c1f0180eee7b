// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/loadbalancer/plan/access"
)

// API is what actions call.
type API interface {
	AssociateIP(ctx context.Context, r cloudstack.AssociateIPRequest) (cloudstack.Submitted, error)
	DisassociateIP(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateLoadBalancerRule(ctx context.Context, r cloudstack.CreateLoadBalancerRuleRequest) (cloudstack.Submitted, error)
	UpdateLoadBalancerRule(ctx context.Context, r cloudstack.UpdateLoadBalancerRuleRequest) (cloudstack.Submitted, error)
	DeleteLoadBalancerRule(ctx context.Context, id string) (cloudstack.Submitted, error)
	AssignToLoadBalancerRule(ctx context.Context, ruleID string, members []cloudstack.MemberAddress) (cloudstack.Submitted, error)
	RemoveFromLoadBalancerRule(ctx context.Context, ruleID string, members []cloudstack.MemberAddress) (cloudstack.Submitted, error)
	CreateFirewallRule(ctx context.Context, r cloudstack.CreateFirewallRuleRequest) (cloudstack.Submitted, error)
	DeleteFirewallRule(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateNetworkACL(ctx context.Context, r cloudstack.CreateNetworkACLRequest) (cloudstack.Submitted, error)
	DeleteNetworkACL(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateStickinessPolicy(ctx context.Context, ruleID string, p cloudstack.StickinessPolicy) (cloudstack.Submitted, error)
	DeleteStickinessPolicy(ctx context.Context, id string) (cloudstack.Submitted, error)
	AssignCertificate(ctx context.Context, ruleID, certID string) (cloudstack.Submitted, error)
	CreateInternalLoadBalancer(ctx context.Context, r cloudstack.CreateInternalLoadBalancerRequest) (cloudstack.Submitted, error)
	DeleteInternalLoadBalancer(ctx context.Context, id string) (cloudstack.Submitted, error)
	CreateTags(ctx context.Context, resourceType string, ids []string, tags map[string]string) (cloudstack.Submitted, error)
	CreatePortForwarding(ctx context.Context, r cloudstack.CreatePortForwardingRequest) (cloudstack.Submitted, error)
	UpdatePortForwarding(ctx context.Context, r cloudstack.UpdatePortForwardingRequest) (cloudstack.Submitted, error)
	DeletePortForwarding(ctx context.Context, id string) (cloudstack.Submitted, error)
	DeleteTags(ctx context.Context, resourceType string, ids []string, keys []string) (cloudstack.Submitted, error)

	// Wait returns when the job has ended, with an error of KindJobFailed when it failed.
	Wait(ctx context.Context, command, jobID string) (*cloudstack.Job, error)
	// Await is Wait the caller's way; it returns nil for a job that has ended and whose result was not read.
	Await(ctx context.Context, a cloudstack.Await) (*cloudstack.Job, error)
	// Result is Wait for a job that has ended.
	Result(ctx context.Context, command, jobID string) (*cloudstack.Job, error)
	QueryJob(ctx context.Context, jobID string) (*cloudstack.Job, error)

	observe.Reader
	ListTags(ctx context.Context, q cloudstack.TagQuery) ([]cloudstack.Tag, error)
}

// Applier does plans of many Services at a time.
type Applier struct {
	API    API
	Server *plan.Server
	Clock  clock.PassiveClock
	// Touch is told the id of an address before and after it is written to.
	Touch func(addressID string)
	// Released is called when an address was released.
	Released func()

	acls        keyed.Mutex // one chooser of numbers per network ACL list
	associating keyed.Mutex // per project: two associateIpAddress at once make the server sleep
}

// Work is what is to be done for one Service, and what became of it.
type Work struct {
	*plan.Subject
	Records *Records
	Memory  *Memory
	Log     func(message string)
	// MayAcquire refuses an address that is one too many; it is empty when CloudStack chooses it.
	MayAcquire func(ctx context.Context, address string) error
	// HeldByOther reports whether another Service of the cluster has an address, by its IP.
	HeldByOther func(ip string) bool

	// Actual is the state as read; it changes as actions take effect.
	Actual *plan.Actual
	// Done counts changes of CloudStack that took effect.
	Done int
	// Again asks for another look, as there is something in Written.
	Again bool
	// TagErr is why tags could not be set; the Service is served without.
	TagErr error
}

// run is the work on one plan.
type run struct {
	*Applier
	*Work
	jobs  []*job
	rules map[int]string      // ids of rules created in this run, by port
	made  map[string][]string // ids of all items created in this run, by their type for createTags
	moved []plan.Step
}

// job is a submitted action.
type job struct {
	step      plan.Step
	rule      string // id of the rule that it works on
	command   string
	id        string
	submitted time.Time
	outcome   plan.Outcome
	// ended completes the action; nil when there is nothing to do but its effect.
	ended func(err error) error
}

// record is what the Service's record says of an address. One of a VPC without rules is bound to no tier; the
// record then names the tier that it is meant for.
func (w *Work) record(a *plan.Address) annotation.AddressRecord {
	rec := a.Record(w.OwnProject)
	if rec.NetworkID == "" {
		rec.NetworkID = w.Desired.NetworkID
	}
	return rec
}

// follow notes a submitted job. It is waited for when there is nothing left to submit, see finish: until then a poll
// would change nothing.
func (r *run) follow(s plan.Step, command string, submitted cloudstack.Submitted) *job {
	if s.Kind == plan.CreateRule {
		r.rules[s.Port] = submitted.ID
	}
	j := &job{step: s, rule: r.ruleID(s), command: command, id: submitted.JobID, submitted: r.Clock.Now(), outcome: plan.Outcome{ID: submitted.ID}}
	r.jobs = append(r.jobs, j)
	if kind := s.Makes(); kind != "" {
		r.made[kind] = append(r.made[kind], submitted.ID)
	}
	return j
}

// ruleID is the id of an action's item; that of a rule made in this run is known as soon as its creation was answered, and
// its job need not have ended.
func (r *run) ruleID(s plan.Step) string {
	if s.ItemID == "" && s.OnRule() {
		return r.rules[s.Port]
	}
	return s.ItemID
}

// on returns the address of an action.
func (r *run) on(s plan.Step) *plan.Address { return r.Actual.Find(s.AddressID) }

func (r *run) touch(s plan.Step) {
	if a := r.on(s); s.ACLID == "" && s.Kind != plan.AllocateAddress && a != nil {
		r.Touch(a.ID)
	}
}

// effect changes the model as CloudStack changed.
func (r *run) effect(s plan.Step, o plan.Outcome) {
	*r.Actual = s.Effect(*r.Actual, o)
	r.Done++
	switch {
	case s.Kind == plan.UpdateForward:
		r.moved = append(r.moved, s)
	case s.Kind == plan.CreateRule && r.Desired.CIDRsDecide && !r.Server.CIDRsProven.Load() && !access.Same(s.Rule.CIDRs, []string{annotation.Anyone}):
		r.Again = true // to see whether the server took the rule's source ranges
		r.Written[o.ID] = s.Rule.CIDRs
	}
}

// wait returns what waits for the job of a call.
func (a *Applier) wait(ctx context.Context, command string) func(cloudstack.Submitted, error) error {
	return func(s cloudstack.Submitted, err error) error {
		if err == nil {
			_, err = a.API.Wait(ctx, command, s.JobID)
		}
		return err
	}
}

// Store keeps records on one Service.
type Store interface {
	// Load reads the records as they are now, not from a cache.
	Load(ctx context.Context) (annotation.Records, error)
	// Save replaces them. A Service that is gone is no error.
	Save(ctx context.Context, r annotation.Records) error
}

// Records are the records of one Service. They change with the work.
type Records struct {
	annotation.Records
	store  Store
	stored annotation.Records // as on the Service
}

// NewRecords returns the records that are on the Service.
func NewRecords(stored annotation.Records, store Store) *Records {
	return &Records{Records: stored.Clone(), store: store, stored: stored}
}

// ErrRecordsChanged means that the Service has other records than the sync began with: it must begin again with these.
var ErrRecordsChanged = errors.New("the records of the Service were changed meanwhile")

// check compares with the Service as the API server has it now.
func (r *Records) check(ctx context.Context) error {
	live, err := r.store.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the Service's records: %w", err)
	}
	if live.Equal(r.stored) {
		return nil
	}
	r.Records, r.stored = live.Clone(), live
	return ErrRecordsChanged
}

// Save writes the records to the Service if they changed.
func (r *Records) Save(ctx context.Context) error {
	if r.stored.Equal(r.Records) {
		return nil
	}
	if err := r.store.Save(ctx, r.Records); err != nil {
		return fmt.Errorf("record addresses on the Service: %w", err)
	}
	r.stored = r.Clone()
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

// RecordServing records the address that serves. The record names ports before they are opened and until they are closed;
// when a plan is done, and no call that opens one can still arrive, only the wanted ones.
func (w *Work) RecordServing(ctx context.Context, done bool) error {
	if target := plan.Target(w.Desired, *w.Actual); target != nil {
		a := w.Actual.Find(target.ID)
		var opened plan.PortSet
		if w.Desired.Firewall && !a.Internal {
			opened = w.Desired.Opened()
		}
		forwarded := w.Desired.Forwarded()
		if !done || !a.Settled {
			opened, forwarded = opened.Union(a.FirewallPorts), forwarded.Union(a.ForwardPorts)
		}
		a.FirewallPorts, a.ForwardPorts, a.Recorded = opened, forwarded, true
		a.HasStickiness = a.HasStickiness || w.Desired.HasStickiness()
		w.Records.set(w.record(a))
	}
	return w.Records.Save(ctx)
}

// Memory is what has to be remembered of a Service's changes until the next sync.
type Memory struct {
	Releasing map[string]time.Time // addresses whose release was asked for and not seen to succeed; the zero time when it is known to have failed
	deleting  time.Time            // since when a rule in state Deleting keeps an address from being released
}
