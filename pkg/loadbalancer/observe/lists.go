// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/internal/keyed"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// The reads of an observation: one call each, or from whole lists that many Services share.

// lists are whole lists of a project, each read when it is first needed. They
// make the cost of looking at many Services independent of their number.
type lists struct {
	begun time.Time   // the oldest list was asked for then, or later
	turns keyed.Mutex // one reader of each list
	mu    sync.Mutex
	read  map[string]any // what was read completely, never changed again
}

// sharedLists returns lists of a project that were begun since a time, new ones if need be.
func (o *Observer) sharedLists(project string, since time.Time) *lists {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lists[project]
	if l == nil || l.begun.Before(since) {
		l = &lists{begun: o.options.Clock.Now(), read: map[string]any{}}
		o.lists[project] = l
	}
	return l
}

// shared returns what read returned to the first of all who share the lists; a read that failed is tried again.
func shared[T any](ctx context.Context, l *lists, name string, read func() (T, error)) (T, error) {
	var none T
	unlock, err := l.turns.Lock(ctx, name)
	if err != nil {
		return none, err
	}
	defer unlock()
	l.mu.Lock()
	known, ok := l.read[name].(T)
	l.mu.Unlock()
	if ok {
		return known, nil
	}
	list, err := read()
	if err != nil {
		return none, err
	}
	l.mu.Lock()
	l.read[name] = list
	l.mu.Unlock()
	return list, nil
}

func (r *reading) allRules(ctx context.Context) ([]cloudstack.LoadBalancerRule, error) {
	list, err := shared(ctx, r.shared, "rules", func() ([]cloudstack.LoadBalancerRule, error) {
		return r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: r.Project})
	})
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules: %w", err)
	}
	return list, nil
}

func (r *reading) allIPs(ctx context.Context) ([]cloudstack.PublicIP, error) {
	list, err := shared(ctx, r.shared, "ips", func() ([]cloudstack.PublicIP, error) {
		return r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: r.Project})
	})
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return list, nil
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

func (r *reading) rulesOf(ctx context.Context, addressID string) ([]cloudstack.LoadBalancerRule, error) {
	if !r.fresh(addressID) {
		return r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: addressID, ProjectID: r.Project})
	}
	all, err := r.allRules(ctx)
	return pick(all, func(r *cloudstack.LoadBalancerRule) bool { return r.PublicIPID == addressID }), err
}

// rulesNamed finds rules whose names begin with a load balancer's. It may find others as well.
func (r *reading) rulesNamed(ctx context.Context, lb string) ([]cloudstack.LoadBalancerRule, error) {
	if r.shared == nil {
		return r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{Keyword: lb, ProjectID: r.Project})
	}
	all, err := r.allRules(ctx)
	return pick(all, func(r *cloudstack.LoadBalancerRule) bool { return strings.HasPrefix(r.Name, lb) }), err
}

func (r *reading) firewallOf(ctx context.Context, addressID string) ([]cloudstack.FirewallRule, error) {
	if !r.fresh(addressID) {
		return r.api.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: addressID, ProjectID: r.Project})
	}
	all, err := shared(ctx, r.shared, "firewall", func() ([]cloudstack.FirewallRule, error) {
		return r.api.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{ProjectID: r.Project})
	})
	return pick(all, func(f *cloudstack.FirewallRule) bool { return f.PublicIPID == addressID }), err
}

func (r *reading) addressesAt(ctx context.Context, ip string) ([]cloudstack.PublicIP, error) {
	if r.shared == nil {
		return r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip, ProjectID: r.Project})
	}
	all, err := r.allIPs(ctx)
	return pick(all, func(p *cloudstack.PublicIP) bool { return p.Address == ip }), err
}

func (r *reading) addressesTagged(ctx context.Context, uid string) ([]cloudstack.PublicIP, error) {
	if r.shared == nil {
		return r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Tags: map[string]string{plan.TagServiceUID: uid}, ProjectID: r.Project})
	}
	all, err := r.allIPs(ctx)
	return pick(all, func(p *cloudstack.PublicIP) bool { return p.Tags[plan.TagServiceUID] == uid }), err
}

func (r *reading) address(ctx context.Context, id string) ([]cloudstack.PublicIP, error) {
	if r.fresh(id) {
		all, err := r.allIPs(ctx)
		if found := pick(all, func(p *cloudstack.PublicIP) bool { return p.ID == id }); err != nil || len(found) > 0 {
			return found, err
		}
	}
	ips, err := r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: r.Project})
	if cloudstack.IsNotFound(err) {
		return nil, nil
	}
	return ips, err
}

// aclItems are the items of a list; of all lists without one.
func (r *reading) aclItems(ctx context.Context, listID string) ([]cloudstack.NetworkACL, error) {
	if r.shared == nil {
		return r.api.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ListID: listID, ProjectID: r.Project})
	}
	all, err := shared(ctx, r.shared, "acls", func() ([]cloudstack.NetworkACL, error) {
		return r.api.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ProjectID: r.Project})
	})
	return pick(all, func(a *cloudstack.NetworkACL) bool { return listID == "" || a.ListID == listID }), err
}

// membersOf are the VMs behind a rule, when asking VM by VM is cheaper than asking rule by rule; ok is false when
// it is not, or the lists are older than our last write.
func (r *reading) membersOf(ctx context.Context, rule *plan.ActualRule, a *plan.Address) (vms []string, ok bool, err error) {
	if !r.fresh(a.ID) || r.options.VMs == nil || a.NetworkID == "" {
		return nil, false, nil
	}
	all, err := r.allRules(ctx)
	if err != nil {
		return nil, false, err
	}
	candidates, err := r.options.VMs(ctx, r.Project, a.NetworkID)
	if err != nil {
		return nil, false, fmt.Errorf("list the VMs of network %s: %w", a.NetworkID, err)
	}
	rules := 0 // of load balancers of Kubernetes, which all will be asked for
	for i := range all {
		if plan.OfKubernetes(all[i].Name) && all[i].NetworkID == a.NetworkID {
			rules++
		}
	}
	const page = 500
	if len(candidates)*((rules+page-1)/page) >= rules {
		return nil, false, nil
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

// Touch notes that an address is written to: lists begun earlier do not count for it.
func (o *Observer) Touch(addressID string) {
	now := o.options.Clock.Now()
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
	t := o.options.Clock.Now().Add(-plan.LostAnswerGrace)
	return o.started.Before(t) && o.untouchedSince(addressID, t)
}
