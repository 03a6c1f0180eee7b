// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine/report"
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
	t := report.Table{Header: []string{"RULE", "BECOMES", "ADDRESS"}}
	for i := range m.plan.Steps {
		s := &m.plan.Steps[i]
		becomes := s.To
		if s.Action == rules.ActionCreate {
			becomes = "made again"
		}
		t.Add(s.From, becomes, fmt.Sprintf("%s:%d", s.PublicIP, s.Port))
	}
	_ = t.Write(b, style)
}

// showPlan prints the rules, what is left alone, and the sum.
func (m *migration) showPlan(b *strings.Builder, style report.Style) {
	p := &m.plan
	t := report.Table{Header: []string{"RULE", "ADDRESS", "MEMBERS", "SERVICE", "ACTION"}}
	var notes strings.Builder
	foreign := 0
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == rules.VerdictForeign && !m.o.Verbose {
			foreign++
			continue
		}
		t.Add(it.Name, fmt.Sprintf("%s:%d", it.PublicIP, it.Port), fmt.Sprint(it.Members), cmp.Or(it.Service, "-"), action(it))
		y := report.SymbolWarning
		switch it.Verdict {
		case rules.VerdictUnattributed, rules.VerdictOrphan, rules.VerdictSurplus:
		case rules.VerdictDuplicate:
			y = report.SymbolFailed
		case rules.VerdictRename, rules.VerdictCurrent, rules.VerdictForeign:
			continue
		}
		notes.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, it.Name+": "+it.Reason))
	}
	if len(t.Rows) > 0 {
		_ = t.Write(b, style)
	}
	b.WriteString(notes.String())
	b.WriteString(style.Indented("", 0, fmt.Sprintf("%d to rename, %d to delete, %d with the current name, %d orphan, %d unattributed, %d surplus, %d duplicate, %d of others",
		p.Count(rules.VerdictRename), p.Deletions(), p.Count(rules.VerdictCurrent), p.Count(rules.VerdictOrphan),
		p.Count(rules.VerdictUnattributed), p.Count(rules.VerdictSurplus), p.Count(rules.VerdictDuplicate), p.Count(rules.VerdictForeign))))
	for _, a := range m.result.Emptied {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, a.Describe()))
	}
	if foreign > 0 && len(p.Steps) == 0 && foreign == len(p.Items) {
		b.WriteString("no rule is named by a cloud provider for Kubernetes\n")
	}
}

func action(it *rules.Item) string {
	switch {
	case it.Action == rules.ActionRename:
		return "rename to " + it.NewName
	case it.Action != "":
		return fmt.Sprintf("%s (%s)", it.Action, it.Verdict)
	}
	switch it.Verdict {
	case rules.VerdictDuplicate, rules.VerdictOrphan, rules.VerdictSurplus:
		return "none: " + string(it.Verdict)
	case rules.VerdictUnattributed:
		return "none: no Service of this cluster"
	case rules.VerdictForeign:
		return "none: not of Kubernetes"
	case rules.VerdictCurrent, rules.VerdictRename:
	}
	return "none"
}
