// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Deleted is all that is needed to make a deleted rule again.
type Deleted struct {
	Description string   `json:"description,omitempty"`
	PublicIPID  string   `json:"publicIpId"`
	PrivatePort int      `json:"privatePort"`
	Protocol    string   `json:"protocol"`
	Algorithm   string   `json:"algorithm"`
	CIDRs       []string `json:"cidrs,omitempty"`
	Members     []string `json:"members"` // ids of VMs
}

func memberIDs(r *Rule) []string {
	ids := []string{}
	for i := range r.Members {
		ids = append(ids, r.Members[i].VMID)
	}
	return ids
}

// Undo returns what is left to do to undo recorded steps, the last first, by the rules that are there now, and says what cannot
// be undone. A step that failed, or whose end is not recorded, may be among those that are recorded: undoing what was not done
// does nothing. What an undo made again is found by the next plan, should it be surplus once more.
func Undo(recorded []Step, now []Rule) (todo []Step, stays []string) {
	seen := map[string]bool{}
	for _, s := range recorded {
		if seen[s.RuleID] || s.Action == ActionCreate {
			continue
		}
		seen[s.RuleID] = true
		if s.Action == ActionDelete {
			if !standsAgain(&s, now) {
				s.Action, s.Keeper = ActionCreate, ""
				todo = append(todo, s)
			}
			continue
		}
		i := slices.IndexFunc(now, func(r Rule) bool { return r.ID == s.RuleID })
		switch {
		case i < 0:
			stays = append(stays, fmt.Sprintf("rule %s is gone by now", s.Name))
		case now[i].Name == s.Name: // never renamed, or back already
		case ParseName(now[i].Name).Family != FamilyUpstream:
			stays = append(stays, fmt.Sprintf("rule %s, which was %s, has a third name by now and keeps it", now[i].Name, s.Name))
		default: // the protocol stays: CloudStack cannot take it away again, and "tcp" is what a rule without one does
			s.NewName, s.Name = s.Name, now[i].Name
			s.PublicIP, s.Port = now[i].PublicIP, now[i].PublicPort
			todo = append(todo, s)
		}
	}
	slices.Reverse(todo)
	return todo, stays
}

// standsAgain reports whether a deleted rule is there, with all its members.
func standsAgain(s *Step, now []Rule) bool {
	return slices.ContainsFunc(now, func(r Rule) bool {
		return r.PublicIPID == s.Rule.PublicIPID && r.PublicPort == s.Port && r.Name == s.Name && sets.New(memberIDs(&r)...).HasAll(s.Rule.Members...)
	})
}
