// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Deleted is all that is needed to make a deleted rule again.
type Deleted struct {
	Description string   `json:"description,omitempty"`
	PublicIPID  string   `json:"publicIpId"`
	PrivatePort int      `json:"privatePort"`
	CIDRs       []string `json:"cidrs,omitempty"`
	Members     []string `json:"members"` // ids of VMs
}

func deleted(r *Rule) *Deleted {
	return &Deleted{Description: r.Description, PublicIPID: r.PublicIPID, PrivatePort: r.PrivatePort, CIDRs: r.CIDRs, Members: memberIDs(r)}
}

func memberIDs(r *Rule) []string {
	ids := []string{}
	for i := range r.Members {
		ids = append(ids, r.Members[i].VMID)
	}
	return ids
}

// remove deletes a rule, a surplus one only while its keeper serves.
func (a *Applier) remove(ctx context.Context, s Step) (what string, err error) {
	before, err := a.find(ctx, s.RuleID)
	if err != nil {
		return "", err
	}
	if before == nil {
		return "is gone already", nil
	}
	if before.Name != s.From || before.PublicPort != s.Port || before.PublicIP != s.PublicIP {
		return "", fmt.Errorf("%w (now %q, %s:%d)", errChanged, before.Name, before.PublicIP, before.PublicPort)
	}
	if s.Keeper != "" {
		if err := a.serves(ctx, s.Keeper, before); err != nil {
			return "", err
		}
	}
	s.Rule = deleted(before)
	return "deleted", a.recorded(s, func() error {
		job, err := a.API.DeleteLoadBalancerRule(ctx, s.RuleID)
		return a.wait(ctx, "delete it", "deleteLoadBalancerRule", job, err)
	})
}

// serves reports whether the rule that is to stay takes over: it is there, the router carries it, and
// it has members if the other one has.
func (a *Applier) serves(ctx context.Context, keeper string, other *Rule) error {
	k, err := a.find(ctx, keeper)
	switch {
	case err != nil:
		return fmt.Errorf("the rule that is to stay (%s): %w", keeper, err)
	case k == nil:
		return fmt.Errorf("the rule that is to stay (%s) is gone; %w", keeper, errChanged)
	case len(k.Members) == 0 && len(other.Members) > 0, k.State != stateActive && len(k.Members) > 0:
		return fmt.Errorf("rule %q (%s), which is to stay, does not serve: state %s, %s", k.Name, keeper, k.State, english.Plural(len(k.Members), "member", ""))
	}
	return nil
}

// restore makes a deleted rule again. It finds what an earlier run made.
func (a *Applier) restore(ctx context.Context, s Step) (what string, err error) {
	if s.Rule == nil {
		return "", fmt.Errorf("the journal does not say what it was")
	}
	rules, err := a.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: s.Rule.PublicIPID, ProjectID: a.ProjectID})
	if err != nil && !cloudstack.IsNotFound(err) {
		return "", fmt.Errorf("look for it: %w", err)
	}
	id, have := "", sets.New[string]()
	for i := range rules {
		if rules[i].PublicPort != s.Port {
			continue
		}
		if rules[i].Name != s.From {
			return "", fmt.Errorf("its port %s:%d is taken by rule %q", s.PublicIP, s.Port, rules[i].Name)
		}
		id = rules[i].ID
		members, err := a.API.ListLoadBalancerMembers(ctx, id)
		if err != nil {
			return "", fmt.Errorf("read its members: %w", err)
		}
		for j := range members {
			have.Insert(members[j].VMID)
		}
	}
	missing := sets.List(sets.New(s.Rule.Members...).Difference(have))
	if id != "" && len(missing) == 0 {
		return "is there already", nil
	}
	return "made again", a.recorded(s, func() error { return a.create(ctx, s, id, missing) })
}

func (a *Applier) create(ctx context.Context, s Step, id string, members []string) error {
	if id == "" {
		job, err := a.API.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: s.From, Description: s.Rule.Description, Algorithm: s.Algorithm, Protocol: s.Protocol, PublicIPID: s.Rule.PublicIPID,
			PublicPort: s.Port, PrivatePort: s.Rule.PrivatePort, CIDRs: s.Rule.CIDRs,
		})
		if err := a.wait(ctx, "make it again", "createLoadBalancerRule", job, err); err != nil {
			return err
		}
		id = job.ID
	}
	if len(members) == 0 {
		return nil
	}
	job, err := a.API.AssignToLoadBalancerRule(ctx, id, cloudstack.VMs(members...))
	return a.wait(ctx, "give it its members", "assignToLoadBalancerRule", job, err)
}

// find reads a rule with its members; nil when there is none.
func (a *Applier) find(ctx context.Context, id string) (*Rule, error) {
	list, err := a.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: id, ProjectID: a.ProjectID})
	if err != nil && !cloudstack.IsNotFound(err) {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if len(list) != 1 {
		return nil, nil //nolint:nilnil // gone is an answer
	}
	r := &Rule{LoadBalancerRule: list[0]}
	if r.Members, err = a.API.ListLoadBalancerMembers(ctx, id); err != nil {
		return nil, fmt.Errorf("read its members: %w", err)
	}
	return r, nil
}
