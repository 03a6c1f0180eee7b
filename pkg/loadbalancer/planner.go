// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer makes CloudStack serve Services of type LoadBalancer:
//
//	observe  CloudStack -> what there is; reads only
//	plan     what is wanted, what there is -> actions; pure
//	apply    actions -> CloudStack
//
// A Planner says what is to be done, by reading alone. A Reconciler does it, and remembers what it read and wrote.
package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/apply"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/observe"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Options configure a Planner and a Reconciler.
type Options struct {
	// ClusterID names the cluster in tags.
	ClusterID func() string
	// FormerClusterID is a name under which this cluster, and perhaps others, tagged earlier: such a tag is believed
	// only together with the Service's UID. Empty for none.
	FormerClusterID string
	// ClusterName is what older providers put into rules' names; "kubernetes" when empty.
	ClusterName string
	// Seal signs records; without one no record proves anything.
	Seal annotation.Signer
	// Neighbours are the cluster's Services of type LoadBalancer, asked for when an address has rules of others.
	Neighbours func(ctx context.Context) ([]observe.Neighbour, error)
	// Unguarded switches guards off. Tests show with it that each guard is needed; nothing else sets it.
	Unguarded map[plan.Guard]bool
	// Project returns the id of a project by name or id. The empty name is the configured project, whose id
	// is empty for the account's own resources. One that does not exist is a *cloudstack.Error of KindNotFound.
	Project func(ctx context.Context, name string) (string, error)
	// Network describes a network of a project as it was no longer than maxAge ago; with zero it may be some minutes old.
	Network func(ctx context.Context, project, id string, maxAge time.Duration) (plan.Network, error)
	// VMs are the ids of all VMs with a NIC in a network; may be nil.
	VMs func(ctx context.Context, project, networkID string) ([]string, error)
	// Mode is that of Services that choose none; annotation.Auto when empty.
	Mode string
	// Commands lists the commands that the role allows, by name; may be nil.
	Commands func(ctx context.Context) (map[string]cloudstack.API, error)
	// Known is what is known of the server beforehand; the rest is learned.
	Known plan.Limits
	// LeaveACLs leaves network ACL lists alone.
	LeaveACLs bool
	// DriftPeriod is how long what was read is trusted; zero means for ever.
	DriftPeriod time.Duration
	// MemberPeriod is the same for the members of rules, which cost a read per rule. Zero: twelve drift periods.
	MemberPeriod time.Duration
	// Policy filters plans.
	Policy plan.Policy
	// Clock is the real one when nil.
	Clock clock.PassiveClock
	// Log gets one line per action; may be nil.
	Log func(service, message string)
	// Released is called when an address was released; may be nil. It must not block.
	Released func()
	// NewJobID makes UUIDs for customjobid; random when nil.
	NewJobID func() string
}

// defaultClusterName is the framework's default for --cluster-name.
const defaultClusterName = "kubernetes"

func (o Options) withDefaults() Options {
	if o.ClusterName == "" {
		o.ClusterName = defaultClusterName
	}
	if o.Neighbours == nil {
		o.Neighbours = func(context.Context) ([]observe.Neighbour, error) { return nil, nil }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.MemberPeriod == 0 {
		o.MemberPeriod = 12 * o.DriftPeriod
	}
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	if o.Released == nil {
		o.Released = func() {}
	}
	if o.NewJobID == nil {
		o.NewJobID = uuid.NewString
	}
	return o
}

// Request is one Service to work on.
type Request struct {
	Service plan.Service
	Spec    annotation.Spec
	Members []plan.Member
	// Reach are all nodes that may serve, if Members are only those that do now; the network is theirs first.
	Reach []plan.Member
	// Refresh reads Members and Reach again where they may be older than some seconds; may be nil.
	Refresh func(ctx context.Context) (members, reach []plan.Member, err error)
	// Unfit are names of nodes to which no port may be forwarded now, with the reason, such as "not ready". They stay
	// members of load balancer rules.
	Unfit   map[string]string
	Records apply.Store
	Grants  plan.Grants
	Notify  func(plan.Notice)
	// BulkSince lets Preview read from whole lists that were begun since, which other Services share; zero for its own
	// choice.
	BulkSince time.Time
}

// Planner finds out what is to be done for Services. It only reads.
type Planner struct {
	options   Options
	observer  *observe.Observer
	reader    observe.Reader
	server    *plan.Server
	addresses keyed.Mutex // one submitter per address
	apis      serverAPIs
	members   memberLists
}

// NewPlanner makes a Planner. It makes no call.
func NewPlanner(reader observe.Reader, o Options) *Planner {
	o = o.withDefaults()
	server := &plan.Server{Known: o.Known}
	server.Known.LeaveACLs, server.Known.Unclaimed = o.LeaveACLs, o.Unguarded[plan.GuardClaim]
	return &Planner{options: o, reader: reader, server: server, observer: observe.New(reader, observe.Options{
		ClusterName: o.ClusterName, VMs: o.VMs, DriftPeriod: o.DriftPeriod, MemberPeriod: o.MemberPeriod, Clock: o.Clock, Server: server, Unguarded: o.Unguarded,
	})}
}

// Preview is what the controller would do for a Service, found by reading alone.
type Preview struct {
	Service string        `json:"service"`
	Desired *plan.Desired `json:"desired,omitempty"`
	Actual  *plan.Actual  `json:"actual,omitempty"`
	// Actions turn actual into desired. Policies are not applied to them.
	Actions []plan.Step `json:"actions"`
	// Refusal says why the Service would not be served; nothing would be changed then.
	Refusal *plan.RefusalError `json:"refusal,omitempty"`
	// Pending are acquisitions whose outcome the controller would ask for first.
	Pending int           `json:"pending,omitempty"`
	Notices []plan.Notice `json:"notices,omitempty"`
}

// Preview says what Ensure would do.
func (p *Planner) Preview(ctx context.Context, req Request) (Preview, error) {
	return p.preview(ctx, req, func(t *task) ([]plan.Step, error) {
		if err := p.desire(ctx, t); err != nil {
			return nil, err
		}
		if err := p.observe(ctx, t, false); err != nil {
			return nil, err
		}
		return p.plan(ctx, t)
	})
}

// PreviewDelete says what Delete would do.
func (p *Planner) PreviewDelete(ctx context.Context, req Request) (Preview, error) {
	return p.preview(ctx, req, func(t *task) ([]plan.Step, error) {
		t.absent(t.Spec.KeepIP)
		if err := p.prove(ctx, t); err != nil {
			return nil, err
		}
		steps, _ := plan.Plan(t.Desired, *t.mem.actual, p.limits())
		return steps, nil
	})
}

func (p *Planner) preview(ctx context.Context, req Request, find func(*task) ([]plan.Step, error)) (Preview, error) {
	out := Preview{Service: req.Service.Key(), Actions: []plan.Step{}}
	req.Notify = func(n plan.Notice) { out.Notices = append(out.Notices, n) }
	t, err := p.newTask(ctx, req, newMemory())
	if err != nil {
		return out, err
	}
	defer t.release()
	out.Pending = len(t.records.Pending)
	steps, err := find(t)
	if t.mem.actual != nil {
		out.Desired, out.Actual = &t.Desired, t.mem.actual
	}
	out.Actions = append(out.Actions, steps...)
	if errors.As(err, &out.Refusal) {
		return out, nil
	}
	return out, err
}

func (p *Planner) limits() plan.Limits { return p.server.Limits() }

// clusters are the names under which this cluster may have signed and tagged.
func (p *Planner) clusters() []string {
	out := []string{p.options.ClusterID()}
	if former := p.options.FormerClusterID; former != "" && former != out[0] {
		out = append(out, former)
	}
	return out
}

func (p *Planner) unguarded(g plan.Guard) bool { return p.options.Unguarded[g] }

// mode is the mode of a Service.
func (p *Planner) mode(spec annotation.Spec) string {
	return cmp.Or(spec.Mode, p.options.Mode, annotation.Auto)
}

// CheckService says why a Service cannot be served wherever its nodes are; it makes no call.
func (p *Planner) CheckService(svc plan.Service, spec annotation.Spec) *plan.RefusalError {
	spec.Mode = p.mode(spec)
	return plan.CheckService(svc, spec)
}
