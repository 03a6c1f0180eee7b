// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Record is what the journal of a migration keeps of a step before it is carried out.
type Record struct {
	APIURL    string `json:"apiUrl"`
	ProjectID string `json:"projectId,omitempty"`
	Step      Step   `json:"step"` // with the Rule as it was, of a deletion
}

// ReadRecords reads the records of a journal.
func ReadRecords(all []json.RawMessage) ([]Record, error) {
	out := make([]Record, len(all))
	for i := range all {
		if err := json.Unmarshal(all[i], &out[i]); err != nil || out[i].APIURL == "" {
			return nil, errors.New("not a journal of csccm migrate-rules")
		}
	}
	return out, nil
}

// Undo returns the steps that undo what is recorded, the last first. A step that failed, or whose end is not recorded, is among
// them: it may have happened, and undoing what was not done does nothing. What an undo made again is found by the next plan,
// should it be surplus once more.
func Undo(records []Record) []Step {
	steps := []Step{}
	seen := map[string]bool{}
	for i := range records {
		if s := records[i].Step; !seen[s.RuleID] && s.Action != ActionCreate {
			seen[s.RuleID] = true
			steps = append(steps, undo(s))
		}
	}
	slices.Reverse(steps)
	return steps
}

// undo is the way back. The protocol stays: CloudStack cannot take it away again, and "tcp" is
// what a rule without one does. A deleted rule is made again, with a new id.
func undo(s Step) Step {
	if s.Action == ActionDelete {
		s.Action, s.Keeper = ActionCreate, ""
	} else {
		s.From, s.To = s.To, s.From
	}
	return s
}

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
		case ActionRename, ActionDelete:
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
		return r.PublicIPID == s.Rule.PublicIPID && r.PublicPort == s.Port && r.Name == s.From && sets.New(memberIDs(&r)...).HasAll(s.Rule.Members...)
	})
}
