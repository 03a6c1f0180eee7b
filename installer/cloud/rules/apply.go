// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Applier carries out steps.
type Applier struct {
	API       *cloudapi.Client
	ProjectID string
	Progress  *report.Progress
}

// Read reads the rules of the project with their members.
func Read(ctx context.Context, api *cloudapi.Client, projectID string) ([]Rule, error) {
	list, err := api.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: projectID})
	if err != nil {
		return nil, fmt.Errorf("list load balancer rules: %w", err)
	}
	rules := make([]Rule, 0, len(list))
	for _, r := range list {
		rule := Rule{LoadBalancerRule: r}
		if ParseName(r.Name).Family != FamilyForeign {
			rule.Members, err = api.ListLoadBalancerMembers(ctx, r.ID)
			if cloudstack.IsNotFound(err) {
				continue // deleted since it was listed
			}
			if err != nil {
				return nil, fmt.Errorf("list the members of rule %q: %w", r.Name, err)
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// Apply renames a rule. One that has the name already counts as done, so a second run goes on where the first ended. A rename that
// has begun is finished even when ctx ends.
func (a *Applier) Apply(ctx context.Context, s Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.Progress.Step("%s", s.Describe())
	what, err := a.rename(context.WithoutCancel(ctx), s)
	if err != nil {
		return fmt.Errorf("rule %q (%s): %w", s.Name, s.RuleID, err)
	}
	a.Progress.Done("%s", what)
	return nil
}

// rename renames a rule and reads it again: nothing but the name, and the protocol where there was none, may differ from before.
func (a *Applier) rename(ctx context.Context, s Step) (what string, err error) {
	was, err := a.find(ctx, s.RuleID)
	switch {
	case err != nil:
		return "", err
	case was.Name == s.NewName:
		return "has the name already", nil
	case was.Name != s.Name || was.PublicPort != s.Port || was.PublicIP != s.PublicIP:
		return "", fmt.Errorf("has changed since the plan was made (now %q, %s:%d): run the command again", was.Name, was.PublicIP, was.PublicPort)
	}
	// The protocol is always sent: an update without it ends in a server error for rules that were created without one.
	// The algorithm is sent so that the update cannot change it.
	job, err := a.API.UpdateLoadBalancerRule(ctx, cloudstack.UpdateLoadBalancerRuleRequest{
		ID: s.RuleID, Name: s.NewName, Protocol: protocolOf(was), Algorithm: was.Algorithm,
	})
	if err == nil {
		_, err = a.API.Jobs().Wait(ctx, "updateLoadBalancerRule", job.JobID)
	}
	if err != nil {
		return "", err
	}
	now, err := a.find(ctx, s.RuleID)
	if err != nil {
		return "", fmt.Errorf("after the rename: %w", err)
	}
	want := *was
	want.Name, want.Protocol = s.NewName, protocolOf(was)
	if len(was.Members) == 0 {
		want.State = now.State // a rule without members stays in state Add once it is touched
	}
	if want, got := text(&want), text(now); want != got {
		return "", fmt.Errorf("after the rename it is %s; it must be %s", got, want)
	}
	return "renamed", nil
}

// text says all that clients notice of a rule.
func text(r *Rule) string {
	var members []string
	for i := range r.Members {
		m := &r.Members[i]
		members = append(members, m.VMID+"="+strings.Join(slices.Sorted(slices.Values(m.Addresses)), "+"))
	}
	slices.Sort(members)
	return fmt.Sprintf("%q, %s, %s, state %s, %s:%d -> %d, source ranges %v, members %v",
		r.Name, r.Protocol, r.Algorithm, r.State, r.PublicIP, r.PublicPort, r.PrivatePort, r.CIDRs, members)
}

// find reads a rule with its members.
func (a *Applier) find(ctx context.Context, id string) (*Rule, error) {
	list, err := a.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: id, ProjectID: a.ProjectID})
	if err != nil && !cloudstack.IsNotFound(err) {
		return nil, err
	}
	if len(list) != 1 {
		return nil, errors.New("is gone since the plan was made: run the command again")
	}
	r := &Rule{LoadBalancerRule: list[0]}
	r.Members, err = a.API.ListLoadBalancerMembers(ctx, id)
	return r, err
}
