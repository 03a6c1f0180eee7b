// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine/report"
)

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func describePins(pins map[string]string) string {
	var out []string
	for _, name := range sortedNames(pins) {
		out = append(out, fmt.Sprintf("%s=%q", name, pins[name]))
	}
	return strings.Join(out, ", ")
}

func describeDifferences(s *ServicePlan) string {
	var out []string
	for i := range s.Differences {
		if s.Differences[i].Consent {
			out = append(out, s.Differences[i].Text)
		}
	}
	return strings.Join(out, "; ")
}

// WriteText prints the plan for a person.
func (p *Plan) WriteText(out io.Writer, style report.Style) error {
	var b strings.Builder
	for i := range p.Predecessors {
		old := &p.Predecessors[i]
		fmt.Fprintf(&b, "Other controller: %s (%s, image %s), %d wanted\n", old, old.Family, old.Image, old.Wanted)
	}
	switch p.Order {
	case OursFirst:
		fmt.Fprintf(&b, "Order: csccm's controller starts before the old one ends: %s\n", p.Why)
	case OldFirst:
		fmt.Fprintf(&b, "Order: the old controller ends before csccm's starts: %s\n", p.Why)
	case Nothing: // the caller prints that there is nothing to do, or the problem
	}
	for _, name := range sortedNames(p.Values) {
		fmt.Fprintf(&b, "Chart value that keeps the nodes' form: %s=%s\n", name, p.Values[name])
	}
	for _, problem := range p.Problems {
		b.WriteString(style.Indented(style.Symbol(report.SymbolFailed)+" ", style.SymbolWidth()+1, problem.Text))
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "RULES", "CHANGES"}}
	for i := range p.Services {
		s := &p.Services[i]
		changes := "none"
		if n := len(s.Changes); n > 0 {
			changes = number(n, "change")
		}
		if s.NeedsConsent() && !s.Pinned {
			changes += ", need consent"
		}
		t.Add(s.Service, s.Address, fmt.Sprint(len(s.Rules)), changes)
	}
	if len(t.Rows) > 0 {
		if err := t.Write(out, style); err != nil {
			return err
		}
	}
	b.Reset()
	for i := range p.Services {
		s := &p.Services[i]
		for j := range s.Differences {
			d := &s.Differences[j]
			y := report.SymbolOK
			text := s.Service + ": " + d.Text
			if d.Consent {
				y = report.SymbolWarning
				switch {
				case d.Pin != nil && s.Pinned:
					y, text = report.SymbolOK, text+fmt.Sprintf(", but for the annotation that --pin sets: %s=%q", d.Pin.Annotation, d.Pin.Value)
				case d.Pin != nil:
					text += fmt.Sprintf(" (--pin keeps it: %s=%q)", d.Pin.Annotation, d.Pin.Value)
				}
			}
			b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, text))
		}
	}
	for i := range p.Services {
		s := &p.Services[i]
		if len(s.Changes) > 0 {
			fmt.Fprintf(&b, "Changes of %s:\n", s.Service)
		}
		for j := range s.Changes {
			sign := s.Changes[j].sign()
			b.WriteString(style.Indented("  "+style.Paint(report.SignPaint(sign), sign)+" ", 4, s.Changes[j].Text))
		}
	}
	if n := len(p.Rules.Steps); n > 0 {
		fmt.Fprintf(&b, "Rules: %s, in place; csccm migrate-rules --dry-run lists them\n", migrate.ToDo(p.Rules.Steps))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
