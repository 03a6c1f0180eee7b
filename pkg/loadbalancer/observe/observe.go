// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads what CloudStack has of a Service. It only reads, and it decides nothing but whose an item is.
package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/evidence"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Reader is what an observation asks CloudStack.
type Reader interface {
	ListPublicIPs(ctx context.Context, q cloudstack.PublicIPQuery) ([]cloudstack.PublicIP, error)
	ListLoadBalancerRules(
		ctx context.Context, q cloudstack.LoadBalancerRuleQuery,
	) ([]cloudstack.LoadBalancerRule, error)
	ListLoadBalancerMembers(ctx context.Context, ruleID string) ([]cloudstack.LoadBalancerMember, error)
	ListFirewallRules(ctx context.Context, q cloudstack.FirewallRuleQuery) ([]cloudstack.FirewallRule, error)
	ListNetworkACLs(ctx context.Context, q cloudstack.NetworkACLQuery) ([]cloudstack.NetworkACL, error)
	ListStickinessPolicies(ctx context.Context, ruleID string) ([]cloudstack.StickinessPolicy, error)
	ListCertificatesOfRule(ctx context.Context, ruleID string) ([]string, error)
	ListInternalLoadBalancers(
		ctx context.Context, q cloudstack.InternalLoadBalancerQuery,
	) ([]cloudstack.InternalLoadBalancer, error)
	ListPortForwardings(ctx context.Context, q cloudstack.PortForwardingQuery) ([]cloudstack.PortForwarding, error)
}

// Options configure an Observer.
type Options struct {
	// ClusterName is what older providers put into rules' names.
	ClusterName string
	// VMs are the ids of all VMs with a NIC in a network; may be nil.
	VMs func(ctx context.Context, project, networkID string) ([]string, error)
	// Place names something of the cluster's that a project shows, such as the network; empty for nothing.
	Place func(ctx context.Context, project, networkID string) (string, error)
	Clock clock.PassiveClock
	// Role takes what the reads show of the role and the server.
	Role *cloudstack.Role
	// LeaveACLs leaves network ACL lists alone.
	LeaveACLs bool
}

// Observer reads for many Services, which may share whole lists.
type Observer struct {
	Options
	api     Reader
	started time.Time

	mu      sync.Mutex
	lists   map[string]*lists    // by project
	touched map[string]time.Time // when we last wrote to an address, by its id

	noForwards atomic.Bool // no Service of the cluster has port forwardings, see allForwards
}

// New makes an Observer. It makes no call.
func New(api Reader, o Options) *Observer {
	return &Observer{
		Options: o,
		api:     api,
		started: o.Clock.Now(),
		lists:   map[string]*lists{},
		touched: map[string]time.Time{},
	}
}

// Query is what to look for, and how closely.
type Query struct {
	*plan.Subject
	// Doubts are addresses that were found absent once.
	Doubts evidence.Doubts
	// Known means that the Service was observed before by this process.
	Known bool
	// ACLs are the network ACL lists as last read and since written, for a role that may not list them now.
	ACLs []plan.ACL

	// Whole reads the port forwardings of each address, and all network ACL lists where there is a VPC. Otherwise these
	// are read only where the Service has some.
	Whole bool
	// AllACLs looks for ACL items in all lists.
	AllACLs bool
	// BulkSince allows the use of whole lists that were begun since; zero for none.
	BulkSince time.Time
}

// reading is one observation.
type reading struct {
	*Observer
	Query
	shared  *lists                       // nil: ask each time
	found   *plan.Actual                 // Actual is what was known before
	primary map[string]map[string]string // see primaryIn, by network
}

// lists are whole lists of a project, each read when it is first needed. They
// make the cost of looking at many Services independent of their number.
type lists struct {
	begun time.Time   // the oldest list was asked for then, or later
	turns keyed.Mutex // one reader of each list
	read  sync.Map    // what was read completely, never changed again
}

// Touch notes that an address is written to: lists begun earlier do not count for it.
func (o *Observer) Touch(addressID string) {
	now := o.Clock.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.touched[addressID]; !known {
		// Nobody asks about times as long ago as that: lists are younger, and so is what may still be on its way.
		maps.DeleteFunc(o.touched, func(_ string, at time.Time) bool { return now.Sub(at) > time.Hour })
	}
	o.touched[addressID] = now
}

func (o *Observer) untouchedSince(addressID string, t time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ever := o.touched[addressID]
	return !ever || at.Before(t)
}

// settled reports whether the last call that changed an address, by this process or the one before it, has long ended.
func (o *Observer) settled(addressID string) bool {
	t := o.Clock.Now().Add(-plan.LostAnswerGrace)
	return o.started.Before(t) && o.untouchedSince(addressID, t)
}

func (r *reading) warn(reason plan.Reason, message string) {
	r.Notify(plan.Notice{Warning: true, Reason: reason, Message: message})
}

// isNode reports whether a VM is a node that the Service has.
func (r *reading) isNode(vm string) bool {
	return slices.ContainsFunc(r.Nodes(), func(m plan.Member) bool { return m.VMID == vm })
}

// Observe reads what concerns a Service; begun is when the oldest of the reads began.
//
// A Service costs three reads per address: the address, its rules, and its firewall or network ACL list; with Whole one
// more for its port forwardings. The first looks after a start, and those of the drift loop, share whole lists.
func (o *Observer) Observe(ctx context.Context, q Query) (actual *plan.Actual, begun time.Time, err error) {
	r := &reading{Observer: o, Query: q, found: &plan.Actual{}, primary: map[string]map[string]string{}}
	begun = o.Clock.Now()
	if !q.BulkSince.IsZero() {
		r.shared = o.sharedLists(q.Project, q.BulkSince)
		begun = r.shared.begun
	}
	return r.found, begun, r.read(ctx)
}

// unread notes a failure to read one of several lists, without which the others can be worked on, and reports whether
// it is one. The proof that nothing is left needs all of them: there it stays an error.
func (r *reading) unread(ctx context.Context, failed error) (unread bool, err error) {
	if failed == nil || r.Desired.Absent || ctx.Err() != nil {
		return false, failed
	}
	if r.found.Unread == nil {
		r.found.Unread = failed
	}
	return true, nil
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

	if err := r.provePlace(ctx); err != nil {
		return err
	}

	return r.readACLs(ctx)
}

// provePlace makes sure that a deletion which finds nothing looks where the Service's objects were made. A record of a
// public address is judged on its own, see missing.
func (r *reading) provePlace(ctx context.Context) error {
	if !r.Desired.Absent ||
		slices.ContainsFunc(r.found.Addresses, func(a plan.Address) bool {
			return !a.Internal || len(a.OwnRules()) > 0
		}) {
		return nil
	}

	network, proof := "", len(r.Records.Addresses) == 0 && len(r.Service.StatusIPs) > 0
	for _, rec := range r.Records.Addresses {
		if rec.Internal {
			network, proof = rec.NetworkID, true
		}
	}
	if !proof {
		return nil
	}

	witness, err := r.Place(ctx, r.Project, network)
	if err == nil {
		err = evidence.Missing("", witness).Err()
	}
	if err != nil {
		return fmt.Errorf("address %s: %w", strings.Join(r.Service.StatusIPs, ", "), err)
	}
	return nil
}

// readAddresses reads addresses. lost reports whether the record names one that does not exist any more.
func (r *reading) readAddresses(ctx context.Context, list candidates) (lost bool, err error) {
	for i := range list {
		c := &list[i]
		exists, err := r.readAddress(ctx, c)
		if err != nil {
			return lost, err
		}

		if c.recorded != nil && !r.Desired.Absent {
			var wait time.Duration
			if exists, wait = r.Doubts.Twice(c.ID, exists, r.Clock.Now()); wait > 0 {
				return lost, &plan.WaitError{Message: fmt.Sprintf("address %s: %v", c.IP, exists.Err()), After: wait}
			}
		}
		if err := exists.Err(); err != nil {
			return lost, fmt.Errorf("address %s: %w", c.IP, err)
		}

		if exists.Present() || c.Lost {
			r.found.Addresses = append(r.found.Addresses, c.Address)
		}
		if exists.Absent() && c.recorded != nil {
			lost = true
			if !r.Desired.Absent {
				r.warn(plan.ReasonAddressLost, "address "+c.IP+" is gone from CloudStack")
			}
		}
	}
	return lost, nil
}
