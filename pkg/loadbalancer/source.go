// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// bulkAge is how old whole lists may be for the first look at a Service after a start.
const bulkAge = 30 * time.Second

// source answers the reads of an observation: one call each, or from whole
// lists that many Services share.
type source struct {
	r       *Reconciler
	project string
	lists   *lists // nil: ask each time
}

// lists are whole lists of a project, each read when it is first needed. They
// make the cost of looking at many Services independent of their number.
type lists struct {
	begun time.Time  // the oldest list was asked for then, or later
	turns KeyedMutex // one reader of each list
	mu    sync.Mutex
	read  map[string]any // what was read completely, never changed again
}

// sharedLists returns lists of a project that were begun since a time, new ones if need be.
func (r *Reconciler) sharedLists(project string, since time.Time) *lists {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lists[project]
	if l == nil || l.begun.Before(since) {
		l = &lists{begun: r.options.Clock.Now(), read: map[string]any{}}
		r.lists[project] = l
	}
	return l
}

// shared is what read returned to the first of all who share the lists; a read that failed is tried again.
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

func (s *source) allRules(ctx context.Context) ([]cloudstack.LoadBalancerRule, error) {
	list, err := shared(ctx, s.lists, "rules", func() ([]cloudstack.LoadBalancerRule, error) {
		return s.r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: s.project})
	})
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules: %w", err)
	}
	return list, nil
}

func (s *source) allIPs(ctx context.Context) ([]cloudstack.PublicIP, error) {
	list, err := shared(ctx, s.lists, "ips", func() ([]cloudstack.PublicIP, error) {
		return s.r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ProjectID: s.project})
	})
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return list, nil
}

// fresh tells whether the lists were asked for after our own last write to an address.
func (s *source) fresh(addressID string) bool {
	return s.lists != nil && s.r.untouchedSince(addressID, s.lists.begun)
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

func (s *source) rulesOf(ctx context.Context, addressID string) ([]cloudstack.LoadBalancerRule, error) {
	if !s.fresh(addressID) {
		return s.r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: addressID, ProjectID: s.project})
	}
	all, err := s.allRules(ctx)
	return pick(all, func(r *cloudstack.LoadBalancerRule) bool { return r.PublicIPID == addressID }), err
}

// rulesNamed finds rules whose names begin with a load balancer's. It may find others as well.
func (s *source) rulesNamed(ctx context.Context, lb string) ([]cloudstack.LoadBalancerRule, error) {
	if s.lists == nil {
		return s.r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{Keyword: lb, ProjectID: s.project})
	}
	all, err := s.allRules(ctx)
	return pick(all, func(r *cloudstack.LoadBalancerRule) bool { return strings.HasPrefix(r.Name, lb) }), err
}

func (s *source) firewallOf(ctx context.Context, addressID string) ([]cloudstack.FirewallRule, error) {
	if !s.fresh(addressID) {
		return s.r.api.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: addressID, ProjectID: s.project})
	}
	all, err := shared(ctx, s.lists, "firewall", func() ([]cloudstack.FirewallRule, error) {
		return s.r.api.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{ProjectID: s.project})
	})
	return pick(all, func(f *cloudstack.FirewallRule) bool { return f.PublicIPID == addressID }), err
}

func (s *source) addressesAt(ctx context.Context, ip string) ([]cloudstack.PublicIP, error) {
	if s.lists == nil {
		return s.r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip, ProjectID: s.project})
	}
	all, err := s.allIPs(ctx)
	return pick(all, func(p *cloudstack.PublicIP) bool { return p.Address == ip }), err
}

func (s *source) addressesTagged(ctx context.Context, uid string) ([]cloudstack.PublicIP, error) {
	if s.lists == nil {
		return s.r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Tags: map[string]string{TagServiceUID: uid}, ProjectID: s.project})
	}
	all, err := s.allIPs(ctx)
	return pick(all, func(p *cloudstack.PublicIP) bool { return p.Tags[TagServiceUID] == uid }), err
}

func (s *source) address(ctx context.Context, id string) ([]cloudstack.PublicIP, error) {
	if s.fresh(id) {
		all, err := s.allIPs(ctx)
		if found := pick(all, func(p *cloudstack.PublicIP) bool { return p.ID == id }); err != nil || len(found) > 0 {
			return found, err
		}
	}
	ips, err := s.r.api.ListPublicIPs(ctx, cloudstack.PublicIPQuery{ID: id, ProjectID: s.project})
	if cloudstack.IsNotFound(err) {
		return nil, nil
	}
	return ips, err
}

// aclItems are the items of a list; of all lists without one.
func (s *source) aclItems(ctx context.Context, listID string) ([]cloudstack.NetworkACL, error) {
	if s.lists == nil {
		return s.r.api.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ListID: listID, ProjectID: s.project})
	}
	all, err := shared(ctx, s.lists, "acls", func() ([]cloudstack.NetworkACL, error) {
		return s.r.api.ListNetworkACLs(ctx, cloudstack.NetworkACLQuery{ProjectID: s.project})
	})
	return pick(all, func(a *cloudstack.NetworkACL) bool { return listID == "" || a.ListID == listID }), err
}

// membersOf are the VMs behind a rule, when asking VM by VM is cheaper than asking rule by rule; ok is false when
// it is not, or the lists are older than our last write.
func (s *source) membersOf(ctx context.Context, rule *ActualRule, a *Address) (vms []string, ok bool, err error) {
	if !s.fresh(a.ID) || s.r.options.VMs == nil || a.NetworkID == "" {
		return nil, false, nil
	}
	all, err := s.allRules(ctx)
	if err != nil {
		return nil, false, err
	}
	candidates, err := s.r.options.VMs(ctx, s.project, a.NetworkID)
	if err != nil {
		return nil, false, fmt.Errorf("list the VMs of network %s: %w", a.NetworkID, err)
	}
	rules := 0 // of load balancers of Kubernetes, which all will be asked for
	for i := range all {
		if ofKubernetes(all[i].Name) && all[i].NetworkID == a.NetworkID {
			rules++
		}
	}
	const page = 500
	if len(candidates)*((rules+page-1)/page) >= rules {
		return nil, false, nil
	}
	byRule, err := shared(ctx, s.lists, "members "+a.NetworkID, func() (map[string][]string, error) {
		byRule := map[string][]string{}
		for _, vm := range candidates {
			of, err := s.r.api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{VMID: vm, NetworkID: a.NetworkID, ProjectID: s.project})
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

// touch notes that an address is written to: lists begun earlier do not count for it.
func (r *Reconciler) touch(addressID string) {
	now := r.options.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.touched[addressID]; !known {
		// Nobody asks about times as long ago as that: lists are younger, and so is what may still be on its way.
		maps.DeleteFunc(r.touched, func(_ string, at time.Time) bool { return now.Sub(at) > time.Hour })
	}
	r.touched[addressID] = now
}

func (r *Reconciler) untouchedSince(addressID string, t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ever := r.touched[addressID]
	return !ever || at.Before(t)
}

// quiet tells whether what was last sent to an address, by this process or the one before it, has long been done.
func (r *Reconciler) quiet(addressID string) bool {
	t := r.options.Clock.Now().Add(-lostAnswerGrace)
	return r.started.Before(t) && r.untouchedSince(addressID, t)
}
