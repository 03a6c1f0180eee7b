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

func (CreateRule) kind() string { return "create-rule" }

func (a CreateRule) label() string {
	r := a.Rule
	return fmt.Sprintf("create rule %s%s (%d to node port %d, %s, %s)", r.Name, a.text(), r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm)
}

func (a CreateRule) effect(before Actual, o Outcome) Actual {
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

func (UpdateRule) kind() string { return "update-rule" }

func (a UpdateRule) label() string {
	return fmt.Sprintf("update rule of port %d%s (%s, %s)", a.Port, a.text(), a.Rule.Protocol, a.Rule.Algorithm)
}

func (a UpdateRule) effect(before Actual, _ Outcome) Actual {
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

func (DeleteRule) kind() string { return "delete-rule" }
func (a DeleteRule) label() string {
	return fmt.Sprintf("delete rule of port %d%s", a.Port, a.text()) + because(a.Note)
}

func (a DeleteRule) removes() string { return a.RuleID }

func (a DeleteRule) effect(before Actual, _ Outcome) Actual {
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

func (TagRules) kind() string    { return "tag-rules" }
func (a TagRules) label() string { return "tag " + plural.Count(len(a.Ports), "rule") + a.text() }

func (a TagRules) effect(before Actual, _ Outcome) Actual {
	return before.with(a.On, func(x *Address) {
		for i := range x.Rules {
			if r := &x.Rules[i]; r.Owner == Owned && slices.Contains(a.Ports, r.PublicPort) {
				r.Tagged = true
			}
		}
	})
}
