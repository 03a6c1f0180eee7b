// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// WriteText writes the plan as text, with a summary at the end. verbose also shows the settings and the Services
// without actions.
func (r *Report) WriteText(w io.Writer, style report.Style, verbose bool) error {
	var b strings.Builder
	if verbose {
		fmt.Fprintf(&b, "cluster %s, policy %s, settings of %s\n\n", r.Settings.ClusterID, r.Settings.Policy,
			r.Settings.From)
	}

	names, addresses := 0, 0 // widths of the columns
	for _, s := range r.Services {
		names, addresses =
			max(names, utf8.RuneCountInString(terminal.Line(s.Service))),
			max(addresses, utf8.RuneCountInString(s.address()))
	}

	for _, s := range r.Services {
		if s.todo() || s.Refusal != nil || s.Error != "" || len(s.Notices) > 0 || verbose {
			s.write(&b, style, names, addresses)
		}
	}

	if b.Len() > 0 {
		b.WriteByte('\n')
	}

	b.WriteString(style.Indented("", 0, r.Summary.String()))
	if r.Summary.BlockedByPolicy > 0 {
		b.WriteString(style.Indented("", 0,
			fmt.Sprintf("The controller's policy %s blocks %s.", r.Settings.Policy,
				report.Count(r.Summary.BlockedByPolicy, "action"))))
	}

	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Service) address() string { return cmp.Or(s.Address, "-") }

func (s *Service) write(b *strings.Builder, style report.Style, names, addresses int) {
	marked := func(y report.Symbol, text string) {
		b.WriteString(style.Indented("  "+style.Symbol(y)+" ", style.SymbolWidth()+3, text))
	}

	b.WriteString(style.Indented("", 2,
		fmt.Sprintf("%-*s   %-*s   %s", names, terminal.Line(s.Service), addresses, s.address(), s.verdict())))
	if s.Error != "" {
		marked(report.SymbolFailed, s.Error)
	}

	if r := s.Refusal; r != nil {
		marked(report.SymbolFailed, r.Message)
		if r.Remedy != "" {
			b.WriteString(style.Indented("  "+strings.Repeat(" ", style.SymbolWidth()+1)+"fix: ", style.SymbolWidth()+8,
				r.Remedy))
		}
	}

	if s.Pending > 0 {
		b.WriteString(style.Indented("  ? ", 4,
			fmt.Sprintf("ask CloudStack for the outcome of %s of an address", report.Count(s.Pending, "acquisition"))))
	}

	for _, a := range s.Actions {
		b.WriteString(style.Indented("  "+style.Marked(a.Sign())+" ", 4, Text(&a)))
	}

	for _, n := range s.Notices {
		y := report.SymbolArrow
		if n.Warning {
			y = report.SymbolWarning
		}
		marked(y, n.Message)
	}
}

func (s *Service) verdict() string {
	switch {
	case s.Error != "":
		return "not known"
	case s.Refusal != nil:
		return "refused: " + string(s.Refusal.Reason)
	case len(s.Actions) > 0 && s.Desired != nil && s.Desired.Absent:
		return report.Count(len(s.Actions), "action") + " to delete it"
	case s.todo():
		return report.Count(len(s.Actions), "action")
	}
	return "as asked for"
}

// String returns the summary as one line of text.
func (s Summary) String() string {
	if s.Services == 0 {
		return "No Service of type LoadBalancer."
	}

	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{
		{s.Settled, "as asked for"},
		{s.Changing, "with " + report.Count(s.Actions, "action")},
		{s.Refused, "refused"},
		{s.Failed, "not known"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}

	return report.Count(s.Services, "Service") + ": " + strings.Join(parts, ", ") + "."
}
