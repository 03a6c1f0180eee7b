// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

// showUndo prints the steps back, and what cannot be undone.
func (m *migration) showUndo(out io.Writer, style report.Style, steps []Step) error {
	for _, note := range m.gone {
		if _, err := io.WriteString(out, style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, note)); err != nil {
			return err
		}
	}
	if len(steps) == 0 {
		_, err := fmt.Fprintf(out, "Nothing to undo: what %s records is as it was before.\n", m.o.Undo)
		return err
	}
	return WriteBack(out, style, steps)
}

// show prints the plan for a person.
func (m *migration) show(out io.Writer) error {
	style := m.e.StyleOf(out)
	p := &m.plan
	if m.o.Undo != "" {
		return m.showUndo(out, style, p.Steps)
	}
	t := report.Table{Header: []string{"RULE", "ADDRESS", "MEMBERS", "SERVICE", "ACTION"}}
	foreign := 0
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == VerdictForeign && !m.o.Verbose {
			foreign++
			continue
		}
		service := it.Service
		if service == "" {
			service = "-"
		}
		t.Add(it.Name, fmt.Sprintf("%s:%d", it.PublicIP, it.Port), fmt.Sprint(it.Members), service, action(it))
	}
	if len(t.Rows) > 0 {
		if err := t.Write(out, style); err != nil {
			return err
		}
	}
	return m.notes(out, style, p, foreign)
}

// notes prints what is left alone, and the sum.
func (m *migration) notes(out io.Writer, style report.Style, p *Plan, foreign int) error {
	var b strings.Builder
	for i := range p.Items {
		it := &p.Items[i]
		y := report.SymbolWarning
		switch it.Verdict {
		case VerdictUnattributed, VerdictOrphan, VerdictSurplus:
		case VerdictDuplicate:
			y = report.SymbolFailed
		case VerdictRename, VerdictCurrent, VerdictForeign:
			continue
		}
		b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, it.Name+": "+it.Reason))
	}
	deletions := 0
	for i := range p.Steps {
		if p.Steps[i].Action == ActionDelete {
			deletions++
		}
	}
	b.WriteString(style.Indented("", 0, fmt.Sprintf("%d to rename, %d to delete, %d with the current name, %d orphan, %d unattributed, %d surplus, %d duplicate, %d of others",
		p.Count(VerdictRename), deletions, p.Count(VerdictCurrent), p.Count(VerdictOrphan),
		p.Count(VerdictUnattributed), p.Count(VerdictSurplus), p.Count(VerdictDuplicate), p.Count(VerdictForeign))))
	for _, a := range m.result.Emptied {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, a.Describe()))
	}
	if foreign > 0 && len(p.Steps) == 0 && foreign == len(p.Items) {
		b.WriteString("no rule is named by a cloud provider for Kubernetes\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
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
