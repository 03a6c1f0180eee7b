// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/plural"
)

// CreateRule creates a load balancer rule.
type CreateRule struct {
	creation
	OnRule
	NetworkID string `json:"networkID,omitempty"`
	Internal  bool   `json:"internal,omitempty"` // the address is one of a VPC tier
	Rule      Rule   `json:"rule"`
}

// Kind implements Action.
func (CreateRule) Kind() string { return "create-rule" }

// Label implements Action.
func (a CreateRule) Label() string {
	r := a.Rule
	return fmt.Sprintf("create rule %s%s (%d to node port %d, %s, %s)", r.Name, a.text(), r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm)
}

// Effect implements Action. Stickiness and certificate come with actions of their own.
func (a CreateRule) Effect(before Actual, o Outcome) Actual {
	return before.with(a.On, func(x *Address) {
		rule := a.Rule
		rule.Stickiness, rule.Certificate = nil, ""
		x.Rules = append(x.Rules, ActualRule{Rule: rule, ID: o.ID, State: "Add", Owner: Owned})
	})
}

// UpdateRule changes a rule in place. CIDRs are left alone where they are nil.
type UpdateRule struct {
	change
	OnRule
	Rule Rule `json:"rule"`
}

// Kind implements Action.
func (UpdateRule) Kind() string { return "update-rule" }

// Label implements Action.
func (a UpdateRule) Label() string {
	return fmt.Sprintf("update rule of port %d%s (%s, %s)", a.Port, a.text(), a.Rule.Protocol, a.Rule.Algorithm)
}

// Effect implements Action.
func (a UpdateRule) Effect(before Actual, _ Outcome) Actual {
	return before.withRule(a.OnRule, func(r *ActualRule) {
		r.Name, r.Protocol, r.Algorithm = a.Rule.Name, a.Rule.Protocol, a.Rule.Algorithm
		if a.Rule.CIDRs != nil {
			r.CIDRs = slices.Clone(a.Rule.CIDRs)
		}
		if r.Protocol != ProtocolSSL {
			r.Certificate = ""
		}
	})
}

// DeleteRule deletes a load balancer rule.
type DeleteRule struct {
	removal
	OnRule
	Internal bool   `json:"internal,omitempty"`
	Note     string `json:"note,omitempty"` // why, where that is not plain
}

// Kind implements Action.
func (DeleteRule) Kind() string { return "delete-rule" }

// Label implements Action.
func (a DeleteRule) Label() string {
	return fmt.Sprintf("delete rule of port %d%s", a.Port, a.text()) + because(a.Note)
}

// Removed is the id of the rule.
func (a DeleteRule) Removed() string { return a.RuleID }

// Effect implements Action.
func (a DeleteRule) Effect(before Actual, _ Outcome) Actual {
	return before.with(a.On, func(x *Address) {
		x.Rules = slices.DeleteFunc(x.Rules, func(r ActualRule) bool { return r.ID == a.RuleID })
	})
}

// TagRules tags the rules of ports as the Service's.
type TagRules struct {
	change
	On
	Ports []int `json:"ports,omitempty"`
}

// Kind implements Action.
func (TagRules) Kind() string { return "tag-rules" }

// Label implements Action.
func (a TagRules) Label() string { return "tag " + plural.Count(len(a.Ports), "rule") + a.text() }

// Effect implements Action.
func (a TagRules) Effect(before Actual, _ Outcome) Actual {
	return before.with(a.On, func(x *Address) {
		for i := range x.Rules {
			if r := &x.Rules[i]; r.Owner == Owned && slices.Contains(a.Ports, r.PublicPort) {
				r.Tagged = true
			}
		}
	})
}
