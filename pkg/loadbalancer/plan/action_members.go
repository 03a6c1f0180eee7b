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

func (AddMembers) kind() string { return "add-members" }

func (a AddMembers) label() string {
	return fmt.Sprintf("add %s to the rule of port %d%s", plural.Count(len(a.Members), "member"), a.Port, a.text())
}

func (a AddMembers) effect(before Actual, _ Outcome) Actual {
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

func (RemoveMembers) kind() string { return "remove-members" }

func (a RemoveMembers) label() string {
	return fmt.Sprintf("remove %s from the rule of port %d%s", plural.Count(len(a.Members), "member"), a.Port, a.text())
}

func (a RemoveMembers) effect(before Actual, _ Outcome) Actual {
	return before.withRule(a.OnRule, func(r *ActualRule) {
		r.Members = slices.DeleteFunc(r.Members, func(m string) bool { return slices.Contains(a.Members, m) })
	})
}
