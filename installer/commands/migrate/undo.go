// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// Remaining returns the steps of an undo that still have something to do, and says about rules that are gone that they
// cannot get their names back.
func Remaining(steps []Step, rules []Rule) (todo []Step, notes []string) {
	todo = []Step{}
	for i := range steps {
		s := &steps[i]
		switch s.Action {
		case ActionCreate:
			if !standsAgain(s, rules) {
				todo = append(todo, *s)
			}
		case ActionRename, ActionDelete, "":
			switch at := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == s.RuleID }); {
			case at < 0:
				notes = append(notes, fmt.Sprintf("rule %s on %s:%d is gone: it does not get the name %s back", s.From, s.PublicIP, s.Port, s.To))
			case rules[at].Name != s.To:
				todo = append(todo, *s)
			}
		}
	}
	return todo, notes
}

// standsAgain reports whether a deleted rule is there, with all its members.
func standsAgain(s *Step, rules []Rule) bool {
	if s.Rule == nil {
		return false
	}
	return slices.ContainsFunc(rules, func(r Rule) bool {
		if r.PublicIPID != s.Rule.PublicIPID || r.PublicPort != s.Port || r.Name != s.From {
			return false
		}
		return !slices.ContainsFunc(s.Rule.Members, func(vm string) bool {
			return !slices.ContainsFunc(r.Members, func(m cloudstack.LoadBalancerMember) bool { return m.VMID == vm })
		})
	})
}
