// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe reads the objects of a Service from CloudStack and decides which Service owns them. It changes
// nothing.
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
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Reader has the CloudStack calls of an observation.
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

const (
	// VMAge is the maximum age of the list of VMs if it contains every node and nothing failed. The node controller
	// keeps the list younger than that, so that syncs need no list of their own.
	VMAge = 10 * time.Minute
	// projectProofAge is the maximum age of a network that proves that the project is the right one.
	projectProofAge = 5 * time.Second
)

// Options configure an Observer.
type Options struct {
	// ClusterName is the cluster's name in the rule names of older providers.
	ClusterName string
	Clock       clock.PassiveClock
	// Role records what the reads show about the role and the server.
	Role *cloudstack.Role
	// LeaveACLs means that network ACL lists are not read.
	LeaveACLs bool
}

// Observer reads for many Services, which may share whole lists.
type Observer struct {
	Options
	api     Reader
	started time.Time

	mu      sync.Mutex
	lists   map[string]*lists    // by project
	touched map[string]time.Time // when this process last wrote to an address, by its id

	noForwards atomic.Bool // the cluster has no port forwardings, see allForwards
}

// New returns an Observer. It makes no call.
func New(api Reader, o Options) *Observer {
	return &Observer{
		Options: o,
		api:     api,
		started: o.Clock.Now(),
		lists:   map[string]*lists{},
		touched: map[string]time.Time{},
	}
}

// Query says what to read, and how completely.
type Query struct {
	*plan.Subject
	// Inventory is that of the project. NodeVMs are the VMs of the Nodes, if they are not in the Subject.
	Inventory *inventory.Inventory
	NodeVMs   []plan.Member
	// Doubts are addresses that one read has shown as absent.
	Doubts evidence.Doubts
	// Known means that this process has observed the Service before.
	Known bool
	// ACLs are the network ACL lists as last read, with the changes made since. They are used if the role may no longer
	// list them.
	ACLs []plan.ACL

	// Whole means to read the port forwardings of each address, and all network ACL lists if there is a VPC. Otherwise
	// these are read only if the Service has any.
	Whole bool
	// AllACLs means to look for ACL items in all lists.
	AllACLs bool
	// BulkSince allows to use whole lists that were started since; zero means none.
	BulkSince time.Time
}

// reading is one observation.
type reading struct {
	*Observer
	Query
	shared  *lists                       // nil if each read makes its own call
	found   *plan.Actual                 // the result; Actual is what was known before
	primary map[string]map[string]string // by network, see primaryIn
}

// lists are whole lists of a project, each read when it is first needed. With them, the cost of reading many Services
// does not depend on their number.
type lists struct {
	begun time.Time   // no list was started earlier
	turns keyed.Mutex // one reader at a time for each list
	read  sync.Map    // complete results, which never change
}

// Touch records that an address is written to: lists that were started earlier are outdated for it.
func (o *Observer) Touch(addressID string) {
	now := o.Clock.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.touched[addressID]; !known {
		// Times as old as this are never asked for: lists, and calls that may still take effect, are younger.
		maps.DeleteFunc(o.touched, func(_ string, at time.Time) bool { return now.Sub(at) > time.Hour })
	}
	o.touched[addressID] = now
}

// untouchedSince reports whether this process has not written to an address since a time.
func (o *Observer) untouchedSince(addressID string, t time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ever := o.touched[addressID]
	return !ever || at.Before(t)
}

// settled reports whether the last call that changed an address, by this process or the one before it, ended long ago.
func (o *Observer) settled(addressID string) bool {
	t := o.Clock.Now().Add(-plan.LostAnswerGrace)
	return o.started.Before(t) && o.untouchedSince(addressID, t)
}

func (r *reading) warn(reason plan.Reason, message string) {
	r.Notify(*plan.Warning(reason, message))
}

// Observe reads the state that concerns a Service; begun is when the oldest of the reads was started.
//
// Each address costs three reads: the address, its rules, and its firewall or network ACL list. With Whole, its port
// forwardings are a fourth. The first reads after a start, and those of drift rounds, share whole lists.
func (o *Observer) Observe(ctx context.Context, q Query) (actual *plan.Actual, begun time.Time, err error) {
	r := &reading{Observer: o, Query: q, found: &plan.Actual{}, primary: map[string]map[string]string{}}
	begun = o.Clock.Now()
	if !q.BulkSince.IsZero() {
		r.shared = o.sharedLists(q.Project, q.BulkSince)
		begun = r.shared.begun
	}
	return r.found, begun, r.read(ctx)
}

// unread records the failure to read one of several lists, if the sync can continue without it, and reports whether it
// can. A proof that nothing is left needs all lists, so there the failure remains an error.
func (r *reading) unread(ctx context.Context, failed error) (unread bool, err error) {
	if failed == nil || r.Desired.Absent || ctx.Err() != nil {
		return false, failed
	}
	if r.found.Unread == nil {
		r.found.Unread = failed
	}
	return true, nil
}

// read reads everything that the query asks for.
func (r *reading) read(ctx context.Context) error {
	found, err := r.candidates(ctx)
	if err != nil {
		return err
	}

	lost, err := r.readAddresses(ctx, found)
	if lost && err == nil {
		// The record is not reliable: somebody may have restored an old one.
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

// provePlace makes sure that a deletion which finds nothing has looked in the project of the Service. The record of a
// public address is judged separately, see missing.
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

	object, err := r.projectProof(ctx, network)
	if err == nil {
		err = evidence.Missing("", object).Err()
	}
	if err != nil {
		return fmt.Errorf("address %s: %w", strings.Join(r.Service.StatusIPs, ", "), err)
	}
	return nil
}

// projectProof returns the name of an object that only the Service's project shows: a VM in the Service's network, or
// the network itself. If the network is not known, it is the VM of a Node. It returns an empty name if there is no such
// object.
func (r *reading) projectProof(ctx context.Context, network string) (string, error) {
	if network == "" {
		known := append(r.Nodes(), r.NodeVMs...)
		if len(known) == 0 {
			return "", nil
		}
		return "VM " + known[0].VMID, nil
	}

	vms, err := r.vmsIn(ctx, network)
	if err != nil {
		return "", err
	}
	if len(vms) > 0 {
		return "VM " + vms[0], nil
	}

	n, err := r.Inventory.Network(ctx, network, projectProofAge)
	switch {
	case cloudstack.IsNotFound(err), err == nil && n.Type == "Shared":
		return "", nil
	case err != nil:
		return "", err
	}
	return "network " + network, nil
}

// vmsIn returns the ids of the VMs in a network.
func (r *reading) vmsIn(ctx context.Context, network string) ([]string, error) {
	vms, err := r.Inventory.VMs(ctx, VMAge)
	if err != nil {
		return nil, err
	}
	return vms.In(network), nil
}

// readAddresses reads addresses. lost reports whether the record names an address that no longer exists.
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
