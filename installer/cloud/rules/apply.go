// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"

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

func (a *Applier) rename(ctx context.Context, s Step) (what string, err error) {
	list, err := a.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: s.RuleID, ProjectID: a.ProjectID})
	if err != nil && !cloudstack.IsNotFound(err) {
		return "", err
	}
	if len(list) != 1 {
		return "", errors.New("is gone since the plan was made: run the command again")
	}
	was := &list[0]
	if was.Name == s.NewName {
		return "has the name already", nil
	}
	if was.Name != s.Name || was.PublicPort != s.Port || was.PublicIP != s.PublicIP {
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
	return "renamed", err
}
