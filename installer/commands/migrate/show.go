// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/plural"
)

// show prints the plan for a person.
func (m *migration) show(out io.Writer) error {
	var b strings.Builder
	if m.o.Undo != "" {
		m.showUndo(&b, m.e.StyleOf(out))
	} else {
		m.showPlan(&b, m.e.StyleOf(out))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// showUndo prints the steps back, and what cannot be undone.
func (m *migration) showUndo(b *strings.Builder, style report.Style) {
	for _, note := range m.gone {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, note))
	}
	if len(m.plan.Steps) == 0 {
		fmt.Fprintf(b, "Nothing to undo: what %s records is as it was before.\n", m.o.Undo)
		return
	}
	_ = WriteBack(b, style, m.plan.Steps)
}

// showPlan prints the rules, what is left alone, and the sum.
func (m *migration) showPlan(b *strings.Builder, style report.Style) {
	p := &m.plan
	t := report.Table{Header: []string{"RULE", "ADDRESS", "MEMBERS", "SERVICE", "ACTION"}}
	var notes strings.Builder
	foreign := 0
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == VerdictForeign && !m.o.Verbose {
			foreign++
			continue
		}
		t.Add(it.Name, fmt.Sprintf("%s:%d", it.PublicIP, it.Port), fmt.Sprint(it.Members), cmp.Or(it.Service, "-"), action(it))
		y := report.SymbolWarning
		switch it.Verdict {
		case VerdictUnattributed, VerdictOrphan, VerdictSurplus:
		case VerdictDuplicate:
			y = report.SymbolFailed
		case VerdictRename, VerdictCurrent, VerdictForeign:
			continue
		}
		notes.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, it.Name+": "+it.Reason))
	}
	if len(t.Rows) > 0 {
		_ = t.Write(b, style)
	}
	b.WriteString(notes.String())
	b.WriteString(style.Indented("", 0, fmt.Sprintf("%d to rename, %d to delete, %d with the current name, %d orphan, %d unattributed, %d surplus, %d duplicate, %d of others",
		p.Count(VerdictRename), p.deletions(), p.Count(VerdictCurrent), p.Count(VerdictOrphan),
		p.Count(VerdictUnattributed), p.Count(VerdictSurplus), p.Count(VerdictDuplicate), p.Count(VerdictForeign))))
	for _, a := range m.result.Emptied {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, a.Describe()))
	}
	if foreign > 0 && len(p.Steps) == 0 && foreign == len(p.Items) {
		b.WriteString("no rule is named by a cloud provider for Kubernetes\n")
	}
}

// deletions is the number of steps that delete a rule.
func (p *Plan) deletions() int {
	n := 0
	for i := range p.Steps {
		if p.Steps[i].Action == ActionDelete {
			n++
		}
	}
	return n
}

func action(it *Item) string {
	switch {
	case it.Action == ActionRename:
		return "rename to " + it.NewName
	case it.Action != "":
		return fmt.Sprintf("%s (%s)", it.Action, it.Verdict)
	}
	switch it.Verdict {
	case VerdictDuplicate, VerdictOrphan, VerdictSurplus:
		return "none: " + string(it.Verdict)
	case VerdictUnattributed:
		return "none: no Service of this cluster"
	case VerdictForeign:
		return "none: not of Kubernetes"
	case VerdictCurrent, VerdictRename:
	}
	return "none"
}

func (s *Step) describe() string {
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
func CountRules(n int) string { return plural.Count(n, "rule") }

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
