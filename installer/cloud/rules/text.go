// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Deletions is the number of steps that delete a rule.
func (p *Plan) Deletions() int {
	n := 0
	for i := range p.Steps {
		if p.Steps[i].Action == ActionDelete {
			n++
		}
	}
	return n
}

// Describe says in words what the step does.
func (s *Step) Describe() string {
	switch s.Action {
	case ActionDelete:
		return fmt.Sprintf("delete %s on %s", s.From, s.PublicIP)
	case ActionCreate:
		return fmt.Sprintf("make %s on %s again", s.From, s.PublicIP)
	case ActionRename:
	}
	return s.From + " -> " + s.To
}

// Sum says in words what steps will do, or did.
func Sum(steps []Step, did bool) string {
	counts := map[Action]int{}
	for i := range steps {
		counts[steps[i].Action]++
	}
	words := map[Action]string{ActionRename: "renamed", ActionDelete: "deleted", ActionCreate: "made again"}
	var out []string
	for _, a := range []Action{ActionRename, ActionDelete, ActionCreate} {
		switch n := CountRules(counts[a]); {
		case counts[a] == 0:
		case did:
			out = append(out, n+" "+words[a])
		default:
			out = append(out, string(a)+" "+n)
		}
	}
	return strings.Join(out, ", ")
}

// CountRules is a number with its noun.
func CountRules(n int) string { return english.Plural(n, "rule", "") }
