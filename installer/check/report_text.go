// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// TextOptions says how a report is shown to a person.
type TextOptions struct {
	Style report.Style
	// Short leaves out what is well and what was skipped.
	Short bool
	// Verbose shows evidence and durations too, and all objects.
	Verbose bool
}

// maxObjects is how many objects are listed below a result.
const maxObjects = 10

// WriteText writes the report for a person: a line for each check, what is wrong with its remedy and a link below it, and a
// summary at the end. Checks that the end of the run cut off, or that wait for another one, are only counted or listed.
func (r Report) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	category := ""
	waiting := map[string][]string{} // skipped checks, by what they need
	for _, c := range r.Checks {
		switch {
		case c.Unfinished || o.Short && (c.Outcome == OK || c.Outcome == Skipped):
			continue
		case c.needs != "" && !o.Verbose:
			waiting[c.needs] = append(waiting[c.needs], c.Code)
			continue
		case !o.Short && c.Category != category:
			if category != "" {
				b.WriteByte('\n')
			}
			category = c.Category
			b.WriteString(o.Style.Paint(report.Strong, category) + "\n")
		}
		b.WriteString(c.text(o))
	}
	if len(waiting) > 0 {
		b.WriteByte('\n')
	}
	for _, code := range slices.Sorted(maps.Keys(waiting)) {
		b.WriteString(o.Style.Indented(o.Style.Symbol(report.SymbolSkipped)+" ", o.Style.SymbolWidth()+1,
			fmt.Sprintf("skipped until %s passes: %s", code, strings.Join(waiting[code], ", "))))
	}
	if b.Len() > 0 && !o.Short {
		b.WriteByte('\n')
	}
	m, unfinished := r.Summary, r.Unfinished() // which are among the unknown ones
	text := fmt.Sprintf("%d ok, %d warning, %d failed, %d skipped, %d unknown", m.OK, m.Warning, m.Failed, m.Skipped, m.Unknown-unfinished)
	if unfinished > 0 {
		text += fmt.Sprintf(", %d not finished", unfinished)
	}
	b.WriteString(o.Style.Indented("", 0, text))
	_, err := io.WriteString(w, b.String())
	return err
}

// text draws one result.
func (r Result) text(o TextOptions) string {
	s := o.Style
	var b strings.Builder
	head := r.Code + " " + r.Title
	if r.Message != "" {
		head += ": " + r.Message
	}
	if o.Verbose {
		head += fmt.Sprintf(" (%d ms)", r.DurationMs)
	}
	b.WriteString(s.Indented(s.Symbol(symbols[r.Outcome])+" ", s.SymbolWidth()+1, head))

	indent := s.SymbolWidth() + 3
	pad := strings.Repeat(" ", indent)
	for i, x := range r.Objects {
		if i == maxObjects && !o.Verbose {
			fmt.Fprintf(&b, "%s... and %d more (-v shows all)\n", pad, len(r.Objects)-i)
			break
		}
		text := x.String()
		if x.Message != "" {
			text += ": " + x.Message
		}
		b.WriteString(s.Indented(pad+"- ", indent+2, text))
	}
	if o.Verbose {
		for _, k := range slices.Sorted(maps.Keys(r.Evidence)) {
			b.WriteString(s.Indented(pad+s.Paint(report.Faint, terminal.Line(k)+":")+" ", indent+len(k)+2, r.Evidence[k]))
		}
	}
	if r.Outcome != OK && r.Outcome != Skipped {
		if r.Remedy != "" {
			b.WriteString(s.Indented(pad+s.Paint(report.Strong, "fix:")+" ", indent+5, r.Remedy))
		}
		b.WriteString(pad + s.Paint(report.Faint, "see: "+r.Hint) + "\n")
	}
	return b.String()
}

var symbols = map[Outcome]report.Symbol{
	OK: report.SymbolOK, Warning: report.SymbolWarning, Failed: report.SymbolFailed, Skipped: report.SymbolSkipped, Unknown: report.SymbolUnknown,
}
