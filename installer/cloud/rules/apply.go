// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// Applier carries out steps.
type Applier struct {
	API       *cloudapi.Client
	ProjectID string
	Progress  *report.Progress
	// Record keeps a step before it is carried out; nil where another record leads back.
	Record func(s Step) error
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

// Apply carries out a step. One that is done already counts as done, so a second run goes on where the first ended. A step that has
// begun is finished even when ctx ends.
func (a *Applier) Apply(ctx context.Context, s Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.Progress.Step("%s", s.Describe())
	what, err := a.change(context.WithoutCancel(ctx), s)
	if err != nil {
		return fmt.Errorf("rule %q (%s): %w", s.Name, s.RuleID, err)
	}
	a.Progress.Done("%s", what)
	return nil
}

func (a *Applier) change(ctx context.Context, s Step) (what string, err error) {
	if s.Action == ActionCreate {
		return a.restore(ctx, s)
	}
	was, err := a.find(ctx, s.RuleID)
	switch {
	case err != nil:
		return "", err
	case was == nil && s.Action == ActionDelete:
		return "is gone already", nil
	case was == nil:
		return "", errors.New("is gone since the plan was made: run the command again")
	case s.Action == ActionRename && was.Name == s.NewName:
		return "has the name already", nil
	case was.Name != s.Name || was.PublicPort != s.Port || was.PublicIP != s.PublicIP:
		return "", fmt.Errorf("has changed since the plan was made (now %q, %s:%d): run the command again", was.Name, was.PublicIP, was.PublicPort)
	}
	if s.Action == ActionRename {
		return "renamed", a.rename(ctx, s, was)
	}
	if err := a.mayGo(ctx, s, was); err != nil {
		return "", err
	}
	s.Rule = &Deleted{
		Description: was.Description, PublicIPID: was.PublicIPID, PrivatePort: was.PrivatePort, CIDRs: was.CIDRs,
		Protocol: protocolOf(was), Algorithm: was.Algorithm, Members: memberIDs(was),
	}
	if err := a.record(s); err != nil {
		return "", err
	}
	job, err := a.API.DeleteLoadBalancerRule(ctx, s.RuleID)
	return "deleted", a.wait(ctx, "deleteLoadBalancerRule", job, err)
}

func (a *Applier) record(s Step) error {
	if a.Record == nil {
		return nil
	}
	return a.Record(s)
}

// wait waits for the job of a command that was submitted, unless err says that it was not.
func (a *Applier) wait(ctx context.Context, command string, job cloudstack.Submitted, err error) error {
	if err == nil {
		_, err = a.API.Jobs().Wait(ctx, command, job.JobID)
	}
	return err
}

// rename renames a rule and reads it again: nothing but the name, and the protocol where there was none, may differ from before.
func (a *Applier) rename(ctx context.Context, s Step, was *Rule) error {
	if err := a.record(s); err != nil {
		return err
	}
	// The protocol is always sent: an update without it ends in a server error for rules that were created without one.
	// The algorithm is sent so that the update cannot change it.
	job, err := a.API.UpdateLoadBalancerRule(ctx, cloudstack.UpdateLoadBalancerRuleRequest{
		ID: s.RuleID, Name: s.NewName, Protocol: protocolOf(was), Algorithm: was.Algorithm,
	})
	if err := a.wait(ctx, "updateLoadBalancerRule", job, err); err != nil {
		return err
	}
	now, err := a.find(ctx, s.RuleID)
	if err == nil && now == nil {
		err = errors.New("it is gone")
	}
	if err != nil {
		return fmt.Errorf("after the rename: %w", err)
	}
	want := *was
	want.Name, want.Protocol = s.NewName, protocolOf(was)
	if len(was.Members) == 0 {
		want.State = now.State // a rule without members stays in state Add once it is touched
	}
	if want, got := text(&want), text(now); want != got {
		return fmt.Errorf("after the rename it is %s; it must be %s", got, want)
	}
	return nil
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

// mayGo returns why a rule may not be deleted: the rule that is to stay must be there, the router must carry it, and it must
// have members if the other one has.
func (a *Applier) mayGo(ctx context.Context, s Step, other *Rule) error {
	if s.Keeper == "" {
		return nil
	}
	k, err := a.find(ctx, s.Keeper)
	switch {
	case err != nil:
		return fmt.Errorf("the rule that is to stay (%s): %w", s.Keeper, err)
	case k == nil:
		return fmt.Errorf("the rule that is to stay (%s) is gone: run the command again", s.Keeper)
	case len(k.Members) == 0 && len(other.Members) > 0, k.State != stateActive && len(k.Members) > 0:
		return fmt.Errorf("rule %q (%s), which is to stay, does not serve: state %s, %s", k.Name, s.Keeper, k.State, english.Plural(len(k.Members), "member", ""))
	}
	return nil
}

// restore makes a deleted rule again. It finds what an earlier run made.
func (a *Applier) restore(ctx context.Context, s Step) (what string, err error) {
	list, err := a.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{PublicIPID: s.Rule.PublicIPID, ProjectID: a.ProjectID})
	if err != nil && !cloudstack.IsNotFound(err) {
		return "", err
	}
	members := sets.New(s.Rule.Members...)
	id := ""
	if i := slices.IndexFunc(list, func(r cloudstack.LoadBalancerRule) bool { return r.PublicPort == s.Port }); i >= 0 {
		if id = list[i].ID; list[i].Name != s.Name {
			return "", fmt.Errorf("its port %s:%d is taken by rule %q", s.PublicIP, s.Port, list[i].Name)
		}
		have, err := a.API.ListLoadBalancerMembers(ctx, id)
		if err != nil {
			return "", err
		}
		members.Delete(memberIDs(&Rule{Members: have})...)
	}
	if err := a.record(s); err != nil {
		return "", err
	}
	if id == "" {
		job, err := a.API.CreateLoadBalancerRule(ctx, cloudstack.CreateLoadBalancerRuleRequest{
			Name: s.Name, Description: s.Rule.Description, Algorithm: s.Rule.Algorithm, Protocol: s.Rule.Protocol, PublicIPID: s.Rule.PublicIPID,
			PublicPort: s.Port, PrivatePort: s.Rule.PrivatePort, CIDRs: s.Rule.CIDRs,
		})
		if err := a.wait(ctx, "createLoadBalancerRule", job, err); err != nil {
			return "", err
		}
		id = job.ID
	}
	if members.Len() > 0 {
		job, err := a.API.AssignToLoadBalancerRule(ctx, id, cloudstack.VMs(sets.List(members)...))
		if err := a.wait(ctx, "assignToLoadBalancerRule", job, err); err != nil {
			return "", err
		}
	}
	return "made again", nil
}

// find reads a rule with its members; nil when there is none.
func (a *Applier) find(ctx context.Context, id string) (*Rule, error) {
	list, err := a.API.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ID: id, ProjectID: a.ProjectID})
	if err != nil && !cloudstack.IsNotFound(err) {
		return nil, err
	}
	if len(list) != 1 {
		return nil, nil //nolint:nilnil // gone is an answer
	}
	r := &Rule{LoadBalancerRule: list[0]}
	r.Members, err = a.API.ListLoadBalancerMembers(ctx, id)
	return r, err
}
