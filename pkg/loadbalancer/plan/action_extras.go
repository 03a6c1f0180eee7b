// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// SetStickiness gives a rule its stickiness policy.
type SetStickiness struct {
	change
	OnRule
	NetworkID string `json:"networkID,omitempty"`
	Rule      Rule   `json:"rule"`
}

func (SetStickiness) kind() string { return "set-stickiness" }
func (a SetStickiness) label() string {
	return fmt.Sprintf("set stickiness %s of port %d%s", a.Rule.Stickiness.Method, a.Port, a.text())
}

func (a SetStickiness) effect(before Actual, o Outcome) Actual {
	after := before.withRule(a.OnRule, func(r *ActualRule) { r.Stickiness, r.PolicyID = a.Rule.Stickiness, o.ID })
	return after.with(a.On, func(x *Address) { x.HasStickiness = true })
}

// DropStickiness deletes the stickiness policy of a rule.
type DropStickiness struct {
	change
	OnRule
	Rule     Rule   `json:"rule"`
	PolicyID string `json:"policyID,omitempty"`
}

func (DropStickiness) kind() string { return "drop-stickiness" }
func (a DropStickiness) label() string {
	return fmt.Sprintf("remove stickiness of port %d%s", a.Port, a.text())
}

func (a DropStickiness) effect(before Actual, _ Outcome) Actual {
	return before.withRule(a.OnRule, func(r *ActualRule) { r.Stickiness, r.PolicyID = nil, "" })
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
	return before.withRule(a.OnRule, func(r *ActualRule) { r.Certificate = a.Rule.Certificate })
}
