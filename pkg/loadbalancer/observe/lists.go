// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// The reads of an observation: one call each, or from whole lists that many Services share.

// sharedLists returns lists of a project that were begun since a time, new ones if need be.
func (o *Observer) sharedLists(project string, since time.Time) *lists {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lists[project]
	if l == nil || l.begun.Before(since) {
		l = &lists{begun: o.options.Clock.Now()}
		o.lists[project] = l
	}
	return l
}

// shared returns what read returned to the first of all who share the lists; a read that failed is tried again.
func shared[T any](ctx context.Context, l *lists, name string, read func() (T, error)) (out T, err error) {
	unlock, err := l.turns.Lock(ctx, name)
	if err != nil {
		return out, err
	}
	defer unlock()
	known, _ := l.read.Load(name)
	if out, ok := known.(T); ok {
		return out, nil
	}
	if out, err = read(); err == nil {
		l.read.Store(name, out)
	}
	return out, err
}

// whole reads a whole list of the project, shared with other Services.
func whole[Q, T any](ctx context.Context, r *reading, list func(context.Context, Q) ([]T, error), all Q) ([]T, error) {
	return shared(ctx, r.shared, fmt.Sprintf("%T", all), func() ([]T, error) { return list(ctx, all) })
}

// find reads what a query asks for: from the whole list where bulk is set, else by a call of its own.
func find[Q, T any](ctx context.Context, r *reading, bulk bool, list func(context.Context, Q) ([]T, error), all, some Q, want func(*T) bool) ([]T, error) {
	if !bulk {
		return list(ctx, some)
	}
	items, err := whole(ctx, r, list, all)
	return pick(items, want), err
}

func (r *reading) allRules(ctx context.Context) ([]cloudstack.LoadBalancerRule, error) {
	return whole(ctx, r, r.api.ListLoadBalancerRules, cloudstack.LoadBalancerRuleQuery{ProjectID: r.Project})
}

func (r *reading) allIPs(ctx context.Context) ([]cloudstack.PublicIP, error) {
	return whole(ctx, r, r.api.ListPublicIPs, cloudstack.PublicIPQuery{ProjectID: r.Project})
}

// fresh reports whether the lists were asked for after our own last write to an address.
func (r *reading) fresh(addressID string) bool {
	return r.shared != nil && r.untouchedSince(addressID, r.shared.begun)
}

func pick[T any](all []T, want func(*T) bool) []T {
	var out []T
	for i := range all {
		if want(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// findRules finds load balancer rules.
func (r *reading) findRules(ctx context.Context, bulk bool, q cloudstack.LoadBalancerRuleQuery, want func(*cloudstack.LoadBalancerRule) bool) ([]cloudstack.LoadBalancerRule, error) {
	q.ProjectID = r.Project
	return find(ctx, r, bulk, r.api.ListLoadBalancerRules, cloudstack.LoadBalancerRuleQuery{ProjectID: r.Project}, q, want)
}

func (r *reading) rulesOf(ctx context.Context, addressID string) ([]cloudstack.LoadBalancerRule, error) {
	return r.findRules(ctx, r.fresh(addressID), cloudstack.LoadBalancerRuleQuery{PublicIPID: addressID}, func(l *cloudstack.LoadBalancerRule) bool { return l.PublicIPID == addressID })
}

// rulesNamed finds rules whose names begin with a load balancer's. It may find others as well.
func (r *reading) rulesNamed(ctx context.Context, lb string) ([]cloudstack.LoadBalancerRule, error) {
	return r.findRules(ctx, r.shared != nil, cloudstack.LoadBalancerRuleQuery{Keyword: lb}, func(l *cloudstack.LoadBalancerRule) bool { return strings.HasPrefix(l.Name, lb) })
}

func (r *reading) firewallOf(ctx context.Context, addressID string) ([]cloudstack.FirewallRule, error) {
	return find(ctx, r, r.fresh(addressID), r.api.ListFirewallRules, cloudstack.FirewallRuleQuery{ProjectID: r.Project},
		cloudstack.FirewallRuleQuery{PublicIPID: addressID, ProjectID: r.Project}, func(f *cloudstack.FirewallRule) bool { return f.PublicIPID == addressID })
}

// aclItems are the items of a list; of all lists without one.
func (r *reading) aclItems(ctx context.Context, listID string) ([]cloudstack.NetworkACL, error) {
	return find(ctx, r, r.shared != nil, r.api.ListNetworkACLs, cloudstack.NetworkACLQuery{ProjectID: r.Project},
		cloudstack.NetworkACLQuery{ListID: listID, ProjectID: r.Project}, func(a *cloudstack.NetworkACL) bool { return listID == "" || a.ListID == listID })
}

// findIPs finds public addresses.
func (r *reading) findIPs(ctx context.Context, q cloudstack.PublicIPQuery, want func(*cloudstack.PublicIP) bool) ([]cloudstack.PublicIP, error) {
	q.ProjectID = r.Project
	return find(ctx, r, r.shared != nil, r.api.ListPublicIPs, cloudstack.PublicIPQuery{ProjectID: r.Project}, q, want)
}

func (r *reading) addressesAt(ctx context.Context, ip string) ([]cloudstack.PublicIP, error) {
	return r.findIPs(ctx, cloudstack.PublicIPQuery{Address: ip}, func(p *cloudstack.PublicIP) bool { return p.Address == ip })
}

func (r *reading) addressesTagged(ctx context.Context, uid string) ([]cloudstack.PublicIP, error) {
	return r.findIPs(ctx, cloudstack.PublicIPQuery{Tags: map[string]string{plan.TagServiceUID: uid}}, func(p *cloudstack.PublicIP) bool { return p.Tags[plan.TagServiceUID] == uid })
}

func (r *reading) address(ctx context.Context, id string) ([]cloudstack.PublicIP, error) {
	if r.fresh(id) {
		all, err := r.allIPs(ctx)
		if found := pick(all, func(p *cloudstack.PublicIP) bool { return p.ID == id }); err != nil || len(found) > 0 {
			return found, err
		}
	}
	all := false // whatever its state
	ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: r.Project, AllocatedOnly: &all})
	if cloudstack.IsNotFound(err) {
		return nil, nil
	}
	return ips, err
}

// membersOf are the VMs behind a rule, when asking VM by VM is cheaper than asking rule by rule; ok is false when
// it is not, or the lists are older than our last write.
func (r *reading) membersOf(ctx context.Context, rule *plan.ActualRule, a *plan.Address) (vms []string, ok bool, err error) {
	if !r.fresh(a.ID) || r.options.VMs == nil || a.NetworkID == "" {
		return nil, false, nil
	}
	candidates, err := shared(ctx, r.shared, "VMs "+a.NetworkID, func() ([]string, error) { return r.cheaperVMs(ctx, a.NetworkID) })
	if err != nil || len(candidates) == 0 {
		return nil, false, err
	}
	byRule, err := shared(ctx, r.shared, "members "+a.NetworkID, func() (map[string][]string, error) {
		byRule := map[string][]string{}
		for _, vm := range candidates {
			of, err := r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{VMID: vm, NetworkID: a.NetworkID, ProjectID: r.Project})
			if err != nil {
				return nil, err
			}
			for i := range of {
				byRule[of[i].ID] = append(byRule[of[i].ID], vm)
			}
		}
		return byRule, nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list the rules of the VMs of network %s: %w", a.NetworkID, err)
	}
	return byRule[rule.ID], true, nil
}

// cheaperVMs are the VMs of a network, if it takes fewer calls to ask each for its rules than each rule for its members.
func (r *reading) cheaperVMs(ctx context.Context, networkID string) ([]string, error) {
	all, err := r.allRules(ctx)
	if err != nil {
		return nil, err
	}
	vms, err := r.options.VMs(ctx, r.Project, networkID)
	if err != nil {
		return nil, fmt.Errorf("list the VMs of network %s: %w", networkID, err)
	}
	rules := 0 // of load balancers of Kubernetes, which all will be asked for
	for i := range all {
		if plan.OfKubernetes(all[i].Name) && all[i].NetworkID == networkID {
			rules++
		}
	}
	const page = 500
	if len(vms)*((rules+page-1)/page) >= rules {
		return nil, nil
	}
	return vms, nil
}
