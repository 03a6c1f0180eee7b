// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply does plans: it makes an action's call, waits for its job, and changes the model as CloudStack changed.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
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
	DeleteTags(ctx context.Context, resourceType string, ids []string, keys []string) (cloudstack.Submitted, error)

	// Wait returns when the job has ended, with an error of KindJobFailed when it failed.
	Wait(ctx context.Context, command, jobID string) (*cloudstack.Job, error)
	QueryJob(ctx context.Context, jobID string) (*cloudstack.Job, error)

	// What some actions have to read before or after.
	ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error)
	ListNetworkACLs(ctx context.Context, q cloudstack.NetworkACLQuery) ([]cloudstack.NetworkACL, error)
	ListInternalLoadBalancers(ctx context.Context, q cloudstack.InternalLoadBalancerQuery) ([]cloudstack.InternalLoadBalancer, error)
}

// Server is what was learned of the server and the role; the Services share it.
type Server struct {
	NoTags, NoACLs                 atomic.Bool
	NoCIDRUpdate, CIDRUpdateProven atomic.Bool
	NoCIDRs, CIDRsProven           atomic.Bool
}

// Applier does plans of many Services at a time.
type Applier struct {
	API    API
	Server *Server
	Clock  clock.PassiveClock
	// NewJobID makes UUIDs for customjobid.
	NewJobID func() string
	// Touch is told the id of an address before and after it is written to.
	Touch func(addressID string)
	// Released is called when an address was released.
	Released func()

	acls        keyed.Mutex // one chooser of numbers per network ACL list
	associating keyed.Mutex // per project: two associateIpAddress at once make the server sleep
}

// Memory is what has to be remembered of a Service's changes until the next sync.
type Memory struct {
	records   *annotation.Records  // as last saved or read; nil when the Service's copy counts
	Releasing map[string]time.Time // addresses whose release was asked for and not seen to succeed; the zero time when it is known to have failed
	deleting  map[string]time.Time // addresses with a rule in state Deleting, and since when
}

// NewMemory makes an empty Memory.
func NewMemory() Memory {
	return Memory{Releasing: map[string]time.Time{}, deleting: map[string]time.Time{}}
}

// Work is what is to be done for one Service, and what became of it.
type Work struct {
	Service plan.Service
	Desired plan.Desired
	Members []plan.Member
	// Project is the one to work in; Clusters are the names of this cluster, the current one first.
	Project  string
	Clusters []string
	Records  *Records
	Memory   *Memory
	Notify   func(plan.Notice)
	Log      func(message string)
	// MayAcquire refuses an address that is one too many; nil without a limit.
	MayAcquire func(ctx context.Context) error

	// Actual is the state as read; it changes as actions take effect.
	Actual *plan.Actual
	// Done counts changes of CloudStack that took effect.
	Done int
	// Written are source ranges that have to be read back, by rule id; Again asks for another look.
	Written map[string]plan.Written
	Again   bool
	// TagErr is why tags could not be set; the Service is served without.
	TagErr error
}

// run is the work on one plan.
type run struct {
	*Applier
	*Work
	jobs  []*job
	rules map[int]string // ids of rules created in this run, by port
}

// job is a submitted action.
type job struct {
	step    plan.Step
	rule    string // id of the rule that it works on
	outcome plan.Outcome
	result  chan error
	// ended completes the action; nil when there is nothing to do but its effect.
	ended func(err error) error
}

// Do does a plan: wave after wave, within a wave submitting ahead and then
// waiting for all its jobs. It stops at the first failure, after the jobs
// under way have ended, and leaves the rest to the next sync.
func (a *Applier) Do(ctx context.Context, w *Work, steps []plan.Step) error {
	w.Again = false
	for _, n := range plan.Interruptions(steps, *w.Actual) {
		w.Notify(n) // before it happens
	}
	r := &run{Applier: a, Work: w, rules: map[int]string{}}
	for len(steps) > 0 {
		n := slices.IndexFunc(steps, func(s plan.Step) bool { return s.Wave != steps[0].Wave })
		if n < 0 {
			n = len(steps)
		}
		if err := r.wave(ctx, steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
	}
	return nil
}

func (r *run) wave(ctx context.Context, steps []plan.Step) error {
	var err error
	for _, s := range steps {
		r.Log(s.Label())
		if err = r.start(ctx, s); err != nil {
			err = fmt.Errorf("%s: %w", s.Label(), err)
			break
		}
	}
	return errors.Join(err, r.finish(func(*job) bool { return true }))
}

// start submits one action, after what works on the same rule: two changes of one rule at once fail. Only adding the
// members of a rule may go along with its creation.
//
// Ports of an internal address are made and deleted one by one: two deletions at once leave the balancer's VM and the
// address taken, and every later creation on the address fails (533).
func (r *run) start(ctx context.Context, s plan.Step) error {
	r.touch(s)
	rule := r.ruleID(s)
	_, adds := s.Action.(plan.AddMembers)
	err := r.finish(func(j *job) bool {
		_, creates := j.step.Action.(plan.CreateRule)
		return oneByOne(s) || rule != "" && j.rule == rule && (!creates || !adds)
	})
	if err != nil {
		return err
	}
	return r.call(ctx, s)
}

func oneByOne(s plan.Step) bool {
	switch act := s.Action.(type) {
	case plan.CreateRule:
		return act.Internal
	case plan.DeleteRule:
		return act.Internal
	}
	return false
}

// finish waits for jobs and lets those that succeeded take effect.
func (r *run) finish(which func(*job) bool) error {
	var errs []error
	rest := r.jobs[:0:0]
	for _, j := range r.jobs {
		if !which(j) {
			rest = append(rest, j)
			continue
		}
		err := <-j.result
		r.touch(j.step)
		switch {
		case j.ended != nil:
			err = j.ended(err)
		case err == nil:
			r.effect(j.step, j.outcome)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.step.Label(), err))
		}
	}
	r.jobs = rest
	return errors.Join(errs...)
}

// follow waits for a job beside the submission of others: all waits share the client's polls.
func (r *run) follow(ctx context.Context, s plan.Step, command string, submitted cloudstack.Submitted) *job {
	j := &job{step: s, rule: r.ruleID(s), outcome: plan.Outcome{ID: submitted.ID}, result: make(chan error, 1)}
	r.jobs = append(r.jobs, j)
	go func() {
		_, err := r.API.Wait(ctx, command, submitted.JobID)
		j.result <- err
	}()
	return j
}

// ruleID is the id of an action's rule; that of a rule made in this run is known as soon as its creation was
// answered, and its job need not have ended.
func (r *run) ruleID(s plan.Step) string {
	on, ok := s.Action.(interface{ OfRule() plan.OnRule })
	if !ok {
		return ""
	}
	if id := on.OfRule().RuleID; id != "" {
		return id
	}
	return r.rules[on.OfRule().Port]
}

// on returns the address of an action.
func (r *run) on(o plan.On) *plan.Address { return r.Actual.Find(o.AddressID) }

func (r *run) touch(s plan.Step) {
	id := ""
	if on, ok := s.Action.(interface{ Address() string }); ok {
		if id = on.Address(); id == "" {
			id = r.Actual.Find("").ID
		}
	}
	r.Touch(id)
}

// effect changes the model as CloudStack changed.
func (r *run) effect(s plan.Step, o plan.Outcome) {
	*r.Actual = s.Effect(*r.Actual, o)
	if _, recorded := s.Action.(plan.RememberAddress); !recorded {
		r.Done++
	}
}
