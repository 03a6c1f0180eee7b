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
	Switched  bool   `json:"switched,omitempty"` // the port was forwarded before
}

func (CreateRule) kind() string { return "create-rule" }

func (a CreateRule) label() string {
	r := a.Rule
	return fmt.Sprintf("create rule %s%s (%d to node port %d, %s, %s)", r.Name, a.text(), r.PublicPort, r.PrivatePort, r.Protocol, r.Algorithm)
}

func (a CreateRule) effect(before Actual, o Outcome) Actual {
	return a.changed(before, func(x *Address) {
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
	return fmt.Sprintf("update rule %s (%s, %s)", a.ofPort(), a.Rule.Protocol, a.Rule.Algorithm)
}

func (a UpdateRule) effect(before Actual, _ Outcome) Actual {
	return a.changedRule(before, func(r *ActualRule) {
		r.Name, r.Protocol, r.Algorithm = a.Rule.Name, a.Rule.Protocol, a.Rule.Algorithm
		if a.Rule.CIDRs != nil {
			r.CIDRs = slices.Clone(a.Rule.CIDRs)
		}
		if r.Protocol != ProtocolSSL {
			r.Certificate = ""
		}
		if a.Rule.IdleTimeout > 0 {
			r.IdleTimeout = a.Rule.IdleTimeout
		}
		if a.Rule.KeepAlive != nil {
			r.KeepAlive = a.Rule.KeepAlive
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

func (DeleteRule) kind() string      { return "delete-rule" }
func (a DeleteRule) label() string   { return "delete rule " + a.ofPort() + because(a.Note) }
func (a DeleteRule) removes() string { return a.RuleID }

func (a DeleteRule) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) {
		x.Rules = slices.DeleteFunc(x.Rules, func(r ActualRule) bool { return r.ID == a.RuleID })
	})
}

// TagRules tags the rules of ports as the Service's.
type TagRules struct {
	change
	OnAddress
	Ports []int `json:"ports,omitempty"`
}

func (TagRules) kind() string    { return "tag-rules" }
func (a TagRules) label() string { return "tag " + plural.Count(len(a.Ports), "rule") + a.text() }

func (a TagRules) effect(before Actual, _ Outcome) Actual {
	return a.changed(before, func(x *Address) {
		for i := range x.Rules {
			if r := &x.Rules[i]; r.Owner == Owned && slices.Contains(a.Ports, r.PublicPort) {
				r.Tagged = true
			}
		}
	})
}

// AddMembers adds members to a rule.
type AddMembers struct {
	creation
	OnRule
	Members []string `json:"members,omitempty"`
}

func (AddMembers) kind() string { return "add-members" }
func (a AddMembers) label() string {
	return "add " + plural.Count(len(a.Members), "member") + " to the rule " + a.ofPort()
}

func (a AddMembers) effect(before Actual, _ Outcome) Actual {
	return a.changedRule(before, func(r *ActualRule) {
		if len(r.Members) == 0 {
			r.Members = ordered(a.Members)
			return
		}
		r.Members = ordered(slices.Concat(r.Members, a.Members))
	})
}

// RemoveMembers removes members from a rule.
type RemoveMembers struct {
	removal
	OnRule
	Members []string `json:"members,omitempty"`
}

func (RemoveMembers) kind() string { return "remove-members" }
func (a RemoveMembers) label() string {
	return "remove " + plural.Count(len(a.Members), "member") + " from the rule " + a.ofPort()
}

func (a RemoveMembers) effect(before Actual, _ Outcome) Actual {
	return a.changedRule(before, func(r *ActualRule) {
		r.Members = slices.DeleteFunc(slices.Clone(r.Members), func(m string) bool { return slices.Contains(a.Members, m) })
	})
}

// SetStickiness gives a rule its stickiness policy.
type SetStickiness struct {
	change
	OnRule
	NetworkID string `json:"networkID,omitempty"`
	Rule      Rule   `json:"rule"`
}

func (SetStickiness) kind() string { return "set-stickiness" }
func (a SetStickiness) label() string {
	return "set stickiness " + a.Rule.Stickiness.Method + " " + a.ofPort()
}

func (a SetStickiness) effect(before Actual, o Outcome) Actual {
	after := a.changedRule(before, func(r *ActualRule) { r.Stickiness, r.PolicyID = a.Rule.Stickiness, o.ID })
	return a.changed(after, func(x *Address) { x.HasStickiness = true })
}

// DropStickiness deletes the stickiness policy of a rule.
type DropStickiness struct {
	change
	OnRule
	Rule     Rule   `json:"rule"`
	PolicyID string `json:"policyID,omitempty"`
}

func (DropStickiness) kind() string    { return "drop-stickiness" }
func (a DropStickiness) label() string { return "remove stickiness " + a.ofPort() }

func (a DropStickiness) effect(before Actual, _ Outcome) Actual {
	return a.changedRule(before, func(r *ActualRule) { r.Stickiness, r.PolicyID = nil, "" })
}

// BindCertificate assigns its certificate to a rule of protocol ssl.
type BindCertificate struct {
	change
	OnRule
	NetworkID string `json:"networkID,omitempty"`
	Rule      Rule   `json:"rule"`
}

func (BindCertificate) kind() string { return "bind-certificate" }
func (a BindCertificate) label() string {
	return fmt.Sprintf("bind certificate %s to port %d%s", a.Rule.Certificate, a.Port, a.text())
}

func (a BindCertificate) effect(before Actual, _ Outcome) Actual {
	return a.changedRule(before, func(r *ActualRule) { r.Certificate = a.Rule.Certificate })
}
