// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/plural"
)

// AddMembers adds members to a rule.
type AddMembers struct {
	creation
	OnRule
	Members []string `json:"members,omitempty"`
}

// Kind implements Action.
func (AddMembers) Kind() string { return "add-members" }

// Label implements Action.
func (a AddMembers) Label() string {
	return fmt.Sprintf("add %s to the rule of port %d%s", plural.Count(len(a.Members), "member"), a.Port, a.text())
}

// Effect implements Action.
func (a AddMembers) Effect(before Actual, _ Outcome) Actual {
	return before.withRule(a.OnRule, func(r *ActualRule) {
		r.Members = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Members, a.Members))))
	})
}

// RemoveMembers removes members from a rule.
type RemoveMembers struct {
	removal
	OnRule
	Members []string `json:"members,omitempty"`
}

// Kind implements Action.
func (RemoveMembers) Kind() string { return "remove-members" }

// Label implements Action.
func (a RemoveMembers) Label() string {
	return fmt.Sprintf("remove %s from the rule of port %d%s", plural.Count(len(a.Members), "member"), a.Port, a.text())
}

// Effect implements Action.
func (a RemoveMembers) Effect(before Actual, _ Outcome) Actual {
	return before.withRule(a.OnRule, func(r *ActualRule) {
		r.Members = slices.DeleteFunc(r.Members, func(m string) bool { return slices.Contains(a.Members, m) })
	})
}
