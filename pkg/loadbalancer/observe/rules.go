// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// readRules reads the rules on an address. It returns the tags of each by its id.
func (r *reading) readRules(ctx context.Context, a *plan.Address) (map[string]map[string]string, error) {
	tags := map[string]map[string]string{}
	if a.State == plan.StateReleasing {
		return tags, nil
	}
	rules, err := r.rulesOf(ctx, a.ID)
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules of %s: %w", a.IP, err)
	}
	for i := range rules {
		led, err := r.leadsToNodes(ctx, &rules[i], a)
		if err != nil {
			return nil, err
		}
		rule := r.classify(&rules[i], a, led)
		tags[rule.ID] = rules[i].Tags
		if len(rule.CIDRs) > 0 {
			r.options.Server.CIDRsProven.Store(true)
		}
		if a.NetworkID == "" {
			a.NetworkID = rules[i].NetworkID
		}
		a.Rules = append(a.Rules, rule)
	}
	if r.Desired.Absent {
		return tags, nil
	}
	sticky := false
	for i := range a.Rules {
		rule := &a.Rules[i]
		if rule.Owner != plan.Owned {
			continue
		}
		if rule.Members, err = r.members(ctx, rule, a); err != nil {
			return nil, err
		}
		if err := r.readExtras(ctx, rule, a.HasStickiness); err != nil {
			return nil, err
		}
		sticky = sticky || rule.PolicyID != ""
	}
	// Without any policy, and none wanted, there is nothing to look for next time.
	a.HasStickiness = sticky || a.HasStickiness && r.Desired.HasStickiness()
	return tags, nil
}

// classify says whose a rule is: by its tags if it has any, else by its name
// together with something else that only the Service's own rule would have.
func (r *reading) classify(in *cloudstack.LoadBalancerRule, a *plan.Address, led bool) plan.ActualRule {
	out := plan.ActualRule{
		Rule: plan.Rule{
			Name: in.Name, Protocol: strings.ToLower(in.Protocol), Algorithm: strings.ToLower(in.Algorithm),
			PublicPort: in.PublicPort, PrivatePort: in.PrivatePort, CIDRs: in.CIDRs,
			IdleTimeout: in.IdleTimeout, KeepAlive: in.KeepAlive,
		},
		ID: in.ID, State: in.State, Owner: plan.TagOwner(in.Tags, r.Clusters, r.Service),
	}
	out.Tagged = out.Owner == plan.Owned
	out.Adopted = in.Description != r.Service.Key()
	switch {
	case a.ForeignCluster:
		out.Owner = plan.Foreign
	case out.Owner == plan.Foreign:
		out.Sibling = slices.Contains(r.Clusters, in.Tags[plan.TagCluster])
	case out.Owner == plan.Unknown:
		out.Owner = plan.Foreign
		cluster := r.options.ClusterName
		if r.unguarded(plan.GuardLeaseweb) {
			cluster = ""
		}
		byUID, own := r.Service.NamesRule(in.Name, cluster)
		switch {
		case !own:
			out.Sibling = plan.OfKubernetes(in.Name)
		case r.corroborates(in, a, byUID), led, r.unguarded(plan.GuardPredecessor) && a.ID == r.Spec.PredecessorAddress:
			out.Owner = plan.Owned
		default:
			out.Owner = plan.Unknown
			r.warn(plan.ReasonUnverifiedRule, fmt.Sprintf(
				"load balancer rule %s (%s) on %s is named like one of this Service, but nothing else says so; it is left alone", in.Name, in.ID, a.IP))
		}
	}
	return out
}

// corroborates reports whether more than its name makes a rule the Service's: the
// address is the Service's, or, where the name holds its UID, the rule leads to
// the Service's node port, or we have described it so.
func (r *reading) corroborates(in *cloudstack.LoadBalancerRule, a *plan.Address, byUID bool) bool {
	if a.Recorded || a.InStatus || a.Owner == plan.Owned {
		return true
	}
	if !byUID {
		return false
	}
	return in.Description == r.Service.Key() || r.hasPort(in)
}

// leadsToNodes reports whether a rule that Leaseweb's provider named after the Service leads to its node port on the
// cluster's own nodes. That makes up for a status that shows a hostname and no address: the annotation which names the
// address then could have been written by anybody.
func (r *reading) leadsToNodes(ctx context.Context, in *cloudstack.LoadBalancerRule, a *plan.Address) (bool, error) {
	if _, named := r.Service.NamesRule(in.Name, ""); r.unguarded(plan.GuardLeaseweb) && named && a.ID == r.Spec.PredecessorAddress {
		return true, nil
	}
	byUID, named := r.Service.NamesRule(in.Name, r.options.ClusterName)
	switch {
	case !named, byUID, a.ID != r.Spec.PredecessorAddress, a.InStatus, a.Recorded, len(in.Tags) > 0, !r.hasPort(in):
		return false, nil
	}
	members, err := r.members(ctx, &plan.ActualRule{ID: in.ID, Rule: plan.Rule{Name: in.Name}}, a)
	if err != nil {
		return false, err
	}
	outside := slices.ContainsFunc(members, func(name string) bool {
		vm, _ := plan.SplitMember(name)
		return !slices.ContainsFunc(append(slices.Clip(r.Members), r.Reach...), func(m plan.Member) bool { return m.VMID == vm })
	})
	return len(members) > 0 && !outside, nil
}
