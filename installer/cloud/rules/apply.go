// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// API is what a migration needs of a *cloudapi.Client.
type API interface {
	ListLoadBalancerRules(ctx context.Context, q cloudstack.LoadBalancerRuleQuery) ([]cloudstack.LoadBalancerRule, error)
	ListLoadBalancerMembers(ctx context.Context, ruleID string) ([]cloudstack.LoadBalancerMember, error)
	UpdateLoadBalancerRule(ctx context.Context, r cloudstack.UpdateLoadBalancerRuleRequest) (cloudstack.Submitted, error)
	CreateLoadBalancerRule(ctx context.Context, r cloudstack.CreateLoadBalancerRuleRequest) (cloudstack.Submitted, error)
	DeleteLoadBalancerRule(ctx context.Context, id string) (cloudstack.Submitted, error)
	AssignToLoadBalancerRule(ctx context.Context, ruleID string, members []cloudstack.MemberAddress) (cloudstack.Submitted, error)
}

// Waiter waits for a job to end; *cloudstack.JobWaiter is one.
type Waiter interface {
	Wait(ctx context.Context, command, jobID string) (*cloudstack.Job, error)
}

// Applier carries out steps.
type Applier struct {
	API       API
	Jobs      Waiter
	ProjectID string
	// Record keeps a step before it is carried out; nil where another record leads back.
	Record func(s Step) error
	// Progress, if not nil, shows each step and how it ended: renamed, or why there was nothing to do.
	Progress *report.Progress
}

// Read reads the rules of the project with their members.
func Read(ctx context.Context, api API, projectID string) ([]Rule, error) {
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

// Apply carries out steps in order and stops at the first that fails. A step that is done already
// counts as done, so a second run goes on where the first ended. A step that has begun is finished
// even when ctx ends; then Apply returns ctx's error. done is the number of steps that are done.
func (a *Applier) Apply(ctx context.Context, steps []Step) (done int, err error) {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("stopped after %d of %d rules: %w", done, len(steps), err)
		}
		if a.Progress != nil {
			a.Progress.Step("%s", s.Describe())
		}
		what, err := a.change(context.WithoutCancel(ctx), s)
		if err != nil {
			return done, fmt.Errorf("rule %q (%s): %w", s.From, s.RuleID, err)
		}
		done++
		if a.Progress != nil {
			a.Progress.Done("%s", what)
		}
	}
	return done, nil
}

// errChanged says that a rule is not as the plan saw it.
var errChanged = errors.New("has changed since the plan was made: run the command again")

func (a *Applier) change(ctx context.Context, s Step) (what string, err error) {
	switch s.Action {
	case ActionDelete:
		return a.remove(ctx, s)
	case ActionCreate:
		return a.restore(ctx, s)
	case ActionRename:
		return a.rename(ctx, s)
	}
	return "", fmt.Errorf("action %q is not known: the journal was written by a newer csccm", s.Action)
}

func (a *Applier) rename(ctx context.Context, s Step) (what string, err error) {
	before, err := a.rule(ctx, s.RuleID)
	if err != nil {
		return "", err
	}
	switch {
	case before.Name == s.To:
		return "has the name already", nil
	case before.Name != s.From || before.PublicPort != s.Port || before.PublicIP != s.PublicIP:
		return "", fmt.Errorf("%w (now %q, %s:%d)", errChanged, before.Name, before.PublicIP, before.PublicPort)
	}
	return "renamed", a.recorded(s, func() error {
		if err := a.update(ctx, s); err != nil {
			return err
		}
		return a.verify(ctx, s, before)
	})
}

// recorded records what is about to happen, and does it.
func (a *Applier) recorded(s Step, do func() error) error {
	if a.Record != nil {
		if err := a.Record(s); err != nil {
			return err
		}
	}
	return do()
}

func (a *Applier) update(ctx context.Context, s Step) error {
	job, err := a.API.UpdateLoadBalancerRule(ctx, cloudstack.UpdateLoadBalancerRuleRequest{
		ID: s.RuleID, Name: s.To, Protocol: s.Protocol, Algorithm: s.Algorithm,
	})
	return a.wait(ctx, fmt.Sprintf("rename to %q", s.To), "updateLoadBalancerRule", job, err)
}

// wait waits for the job of a command that was submitted, unless err says that it was not. doing is for the error.
func (a *Applier) wait(ctx context.Context, doing, command string, job cloudstack.Submitted, err error) error {
	if err == nil {
		_, err = a.Jobs.Wait(ctx, command, job.JobID)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// verify reads the rule again: nothing but the name, and the protocol where there was none, may
// differ from before.
func (a *Applier) verify(ctx context.Context, s Step, before *Rule) error {
	after, err := a.rule(ctx, s.RuleID)
	if err != nil {
		return fmt.Errorf("after the rename: %w", err)
	}
	var wrong []string
	expect := func(what, want, got string) {
		if want != got {
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	expect("name", s.To, after.Name)
	expect("protocol", s.Protocol, after.Protocol)
	expect("algorithm", before.Algorithm, after.Algorithm)
	expect("source ranges", strings.Join(before.CIDRs, ","), strings.Join(after.CIDRs, ","))
	expect("address", address(before), address(after))
	expect("members", members(before), members(after))
	// A rule without members stays in state Add once it is touched.
	if before.State != after.State && len(before.Members) > 0 {
		expect("state", before.State, after.State)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("after the rename: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func address(r *Rule) string {
	return fmt.Sprintf("%s:%d -> %d", r.PublicIP, r.PublicPort, r.PrivatePort)
}

func members(r *Rule) string {
	var out []string
	for i := range r.Members {
		m := &r.Members[i]
		out = append(out, m.VMID+"="+strings.Join(slices.Sorted(slices.Values(m.Addresses)), "+"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (a *Applier) rule(ctx context.Context, id string) (*Rule, error) {
	r, err := a.find(ctx, id)
	if err == nil && r == nil {
		return nil, fmt.Errorf("is gone; %w", errChanged)
	}
	return r, err
}
