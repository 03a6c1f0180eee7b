// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/engine/report"
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

// perAction phrases how many steps there are of each action.
func perAction(steps []Step, phrase func(Action, string) string) string {
	counts := map[Action]int{}
	for i := range steps {
		counts[steps[i].Action]++
	}
	var out []string
	for _, a := range []Action{ActionRename, ActionDelete, ActionCreate} {
		if counts[a] > 0 {
			out = append(out, phrase(a, CountRules(counts[a])))
		}
	}
	return strings.Join(out, ", ")
}

// ToDo says in words what steps will do.
func ToDo(steps []Step) string {
	return perAction(steps, func(a Action, n string) string { return string(a) + " " + n })
}

// Did says in words what steps did.
func Did(steps []Step) string {
	words := map[Action]string{ActionRename: "renamed", ActionDelete: "deleted", ActionCreate: "made again"}
	return perAction(steps, func(a Action, n string) string { return n + " " + words[a] })
}

// CountRules is a number with its noun.
func CountRules(n int) string { return english.Plural(n, "rule", "") }

// WriteBack prints the steps of an undo for a person.
func WriteBack(out io.Writer, style report.Style, steps []Step) error {
	t := report.Table{Header: []string{"RULE", "BECOMES", "ADDRESS"}}
	for i := range steps {
		s := &steps[i]
		becomes := s.To
		if s.Action == ActionCreate {
			becomes = "made again"
		}
		t.Add(s.From, becomes, fmt.Sprintf("%s:%d", s.PublicIP, s.Port))
	}
	return t.Write(out, style)
}
