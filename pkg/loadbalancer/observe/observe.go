// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads what CloudStack has of a Service. It only reads, and it decides nothing but whose an item is.
package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Reader is what an observation asks CloudStack.
type Reader interface {
	ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error)
	ListLoadBalancerRules(ctx context.Context, q cloudstack.LoadBalancerRuleQuery) ([]cloudstack.LoadBalancerRule, error)
	ListLoadBalancerMembers(ctx context.Context, ruleID string) ([]cloudstack.LoadBalancerMember, error)
	ListFirewallRules(ctx context.Context, q cloudstack.FirewallRuleQuery) ([]cloudstack.FirewallRule, error)
	ListNetworkACLs(ctx context.Context, q cloudstack.NetworkACLQuery) ([]cloudstack.NetworkACL, error)
	ListStickinessPolicies(ctx context.Context, ruleID string) ([]cloudstack.StickinessPolicy, error)
	ListCertificatesOfRule(ctx context.Context, ruleID string) ([]string, error)
	ListInternalLoadBalancers(ctx context.Context, q cloudstack.InternalLoadBalancerQuery) ([]cloudstack.InternalLoadBalancer, error)
	ListPortForwardings(ctx context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error)
}

// Options configure an Observer.
type Options struct {
	// ClusterName is what older providers put into rules' names.
	ClusterName string
	// VMs are the ids of all VMs with a NIC in a network; may be nil.
	VMs func(ctx context.Context, project, networkID string) ([]string, error)
	// DriftPeriod is how long what was read is trusted; MemberPeriod is the same for the members of rules, which cost a
	// read per rule. Zero means for ever.
	DriftPeriod, MemberPeriod time.Duration
	Clock                     clock.PassiveClock
	// Unguarded switches guards off, in tests.
	Unguarded map[plan.Guard]bool
}

// Observer reads for many Services, which may share whole lists.
type Observer struct {
	api     Reader
	options Options
	started time.Time

	mu      sync.Mutex
	lists   map[string]*lists    // by project
	touched map[string]time.Time // when we last wrote to an address, by its id
}

// New makes an Observer. It makes no call.
func New(api Reader, o Options) *Observer {
	return &Observer{api: api, options: o, started: o.Clock.Now(), lists: map[string]*lists{}, touched: map[string]time.Time{}}
}

// Query is what to look for, and how closely.
type Query struct {
	Service plan.Service
	Spec    annotation.Spec
	Desired plan.Desired
	// Members serve; Reach are other VMs of the cluster's nodes.
	Members, Reach []plan.Member
	// Project is the one to look in; OwnProject the same if the Service names it, as records have it.
	Project, OwnProject string
	// Clusters are the names of this cluster, the current one first.
	Clusters []string
	// Records are those that this controller signed; Former is set when some were signed under a former name.
	Records annotation.Records
	Former  bool
	// Neighbours finds the cluster's other Services.
	Neighbours func(ctx context.Context) (*Neighbours, error)
	// Releasing are addresses whose release was asked for and not seen to succeed.
	Releasing map[string]time.Time
	// Written are source ranges that were written to rules, by id, and not read back.
	Written map[string]plan.Written
	Memory  *Memory
	// NoTags: the role may not tag. LeaveACLs: network ACL lists are left alone.
	NoTags, LeaveACLs bool

	// Prove reads the addresses themselves, as releasing one asks for.
	Prove bool
	// Survey reads the address's own properties and its port forwardings.
	Survey bool
	// Verify counts remembered members, stickiness and certificates as old.
	Verify bool
	// AllACLs looks for ACL items in all lists.
	AllACLs bool
	// BulkSince allows the use of whole lists that were begun since; zero for none.
	BulkSince time.Time
}

// Observation is what was read.
type Observation struct {
	Actual plan.Actual
	// Begun is when the oldest of the reads began.
	Begun   time.Time
	Learned Learned
	Notices []plan.Notice
}

// Learned is what the reads showed of the server and the role.
type Learned struct {
	// NoACLs: the role may not list network ACLs.
	NoACLs bool
	// CIDRsProven and NoCIDRs: rules have source ranges, or ignore them (before 4.18).
	CIDRsProven, NoCIDRs bool
	// CIDRUpdateProven and NoCIDRUpdate: updateLoadBalancerRule changes them, or ignores them (before 4.22).
	CIDRUpdateProven, NoCIDRUpdate bool
}

// reading is one observation.
type reading struct {
	*Observer
	Query
	shared *lists // nil: ask each time
	out    Observation
	vacant map[string]bool // ids of addresses left by the Service that they were acquired for to those that use them
}

// Observe reads what concerns a Service.
//
// A Service with a record costs two reads an address (its rules, its firewall
// or network ACL list) and one more for the address itself when Prove is set
// or something is in doubt. The first looks after a start, and those of the
// drift loop, share whole lists.
func (o *Observer) Observe(ctx context.Context, q Query) (Observation, error) {
	r := &reading{Observer: o, Query: q, out: Observation{Begun: o.options.Clock.Now()}, vacant: map[string]bool{}}
	if !q.BulkSince.IsZero() && !q.Prove {
		r.shared = o.sharedLists(q.Project, q.BulkSince)
	}
	err := r.read(ctx)
	q.Memory.known = q.Memory.known || err == nil
	if r.shared != nil {
		r.out.Begun = r.shared.begun
	}
	return r.out, err
}

func (r *reading) read(ctx context.Context) error {
	found, err := r.candidates(ctx)
	if err != nil {
		return err
	}
	lost, err := r.readAddresses(ctx, found)
	if lost && err == nil {
		// The record is not to be relied on: it may be an old one that somebody put back.
		known := len(found)
		if err = r.unrecorded(ctx, &found); err == nil {
			_, err = r.readAddresses(ctx, found[known:])
		}
	}
	if err != nil {
		return err
	}
	if err := r.readInternal(ctx); err != nil {
		return err
	}
	return r.readACLs(ctx)
}

// readAddresses reads addresses. lost reports whether one is gone that the record names.
func (r *reading) readAddresses(ctx context.Context, list candidates) (lost bool, err error) {
	for i := range list {
		a, found, err := r.readAddress(ctx, list[i])
		if err != nil {
			return lost, err
		}
		switch {
		case found:
			r.out.Actual.Addresses = append(r.out.Actual.Addresses, a)
		case list[i].recorded != nil:
			lost = true
			if !r.Desired.Absent {
				r.warn(plan.ReasonAddressLost, "address "+list[i].IP+" is gone from CloudStack")
			}
		}
	}
	return lost, nil
}

func (r *reading) warn(reason plan.Reason, message string) {
	r.out.Notices = append(r.out.Notices, plan.Notice{Warning: true, Reason: reason, Message: message})
}

func (r *reading) unguarded(g plan.Guard) bool { return r.options.Unguarded[g] }

// hasPort reports whether a rule maps a port of the Service to its node port.
func (r *reading) hasPort(in *cloudstack.LoadBalancerRule) bool {
	return slices.ContainsFunc(r.Service.Ports, func(p plan.Port) bool { return p.Port == in.PublicPort && p.NodePort == in.PrivatePort })
}

// ProjectMissing reports whether the failure of a read shows that the Service's project does not exist, and nothing else
// says that the Service had anything there: then there is nothing to delete.
func ProjectMissing(svc plan.Service, spec annotation.Spec, err error) bool {
	return cloudstack.IsNotFound(err) && spec.Project != "" && spec.Records.Empty() && len(svc.StatusIPs) == 0
}
