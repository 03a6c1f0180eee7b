// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine/report"
)

// showUndo prints the steps back, and what cannot be undone.
func (m *migration) showUndo(out io.Writer, style report.Style, steps []migrate.Step) error {
	for _, note := range m.gone {
		if _, err := io.WriteString(out, style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, note)); err != nil {
			return err
		}
	}
	if len(steps) == 0 {
		_, err := fmt.Fprintf(out, "Nothing to undo: what %s records is as it was before.\n", m.f.undo)
		return err
	}
	return migrate.WriteBack(out, style, steps)
}

// show prints the plan for a person.
func (m *migration) show(p *migrate.Plan) error {
	out, style := m.g.out, m.g.style(m.g.out)
	if m.f.undo != "" {
		return m.showUndo(out, style, p.Steps)
	}
	t := report.Table{Header: []string{"RULE", "ADDRESS", "MEMBERS", "SERVICE", "ACTION"}}
	foreign := 0
	for i := range p.Items {
		it := &p.Items[i]
		if it.Verdict == migrate.VerdictForeign && m.g.verbosity == 0 {
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
func (m *migration) notes(out io.Writer, style report.Style, p *migrate.Plan, foreign int) error {
	var b strings.Builder
	for i := range p.Items {
		it := &p.Items[i]
		y := report.SymbolWarning
		switch it.Verdict {
		case migrate.VerdictUnattributed, migrate.VerdictOrphan, migrate.VerdictSurplus:
		case migrate.VerdictDuplicate:
			y = report.SymbolFailed
		case migrate.VerdictRename, migrate.VerdictCurrent, migrate.VerdictForeign:
			continue
		}
		b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, it.Name+": "+it.Reason))
	}
	deletions := 0
	for i := range p.Steps {
		if p.Steps[i].Action == migrate.ActionDelete {
			deletions++
		}
	}
	b.WriteString(style.Indented("", 0, fmt.Sprintf("%d to rename, %d to delete, %d with the current name, %d orphan, %d unattributed, %d surplus, %d duplicate, %d of others",
		p.Count(migrate.VerdictRename), deletions, p.Count(migrate.VerdictCurrent), p.Count(migrate.VerdictOrphan),
		p.Count(migrate.VerdictUnattributed), p.Count(migrate.VerdictSurplus), p.Count(migrate.VerdictDuplicate), p.Count(migrate.VerdictForeign))))
	for _, a := range m.emptied {
		b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, a.Describe()))
	}
	if foreign > 0 && len(p.Steps) == 0 && foreign == len(p.Items) {
		b.WriteString("no rule is named by a cloud provider for Kubernetes\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
