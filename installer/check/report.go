// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/pkg/version"
)

// SchemaVersion is the version of the JSON report; it grows if a field changes its meaning.
const SchemaVersion = 1

// Schema is the JSON schema of the JSON report.
//
//go:embed report.schema.json
var Schema []byte

// Result is the outcome of one check.
type Result struct {
	Code     string   `json:"code"`
	Category string   `json:"category"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	Finding
	Hint       string `json:"hint"`
	DurationMs int64  `json:"durationMs"`
	// Needs is the check for which this one was skipped: the first that did not pass. Text output lists it once.
	Needs string `json:"-"`
}

// ResultOf returns the result for a check's finding and its duration.
func ResultOf(c *Check, f Finding, took time.Duration) Result {
	f.Outcome = cmp.Or(f.Outcome, map[Severity]Outcome{SeverityWarning: Warning}[c.Severity], Failed)
	f.Objects = append(Objects{}, f.Objects...) // never null in JSON
	if f.Evidence == nil {
		f.Evidence = map[string]string{}
	}

	switch f.Outcome {
	case Failed, Warning:
		f.Remedy = cmp.Or(f.Remedy, c.Remedy)
	case OK, Skipped:
		f.Remedy = ""
	case Unknown:
	}

	return Result{
		Code:       c.Code,
		Category:   c.Category(),
		Title:      c.Title,
		Severity:   c.Severity,
		Finding:    f,
		Hint:       c.Hint(),
		DurationMs: took.Milliseconds(),
	}
}

// Without removes secrets. No check shows any, but checks quote Events and logs, which other programs write.
func (r Result) Without(secrets ...string) Result {
	clean := func(text string) string { return report.Mask(text, secrets...) }
	r.Message, r.Remedy = clean(r.Message), clean(r.Remedy)
	for i := range r.Objects {
		r.Objects[i].Message = clean(r.Objects[i].Message)
	}
	for k, v := range r.Evidence {
		r.Evidence[k] = clean(v)
	}
	return r
}

// Summary counts the outcomes.
type Summary struct {
	OK      int `json:"ok"`
	Warning int `json:"warning"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Unknown int `json:"unknown"`
}

// Text returns the number of checks with each outcome. unfinished is the number of checks that the summary counts as
// unknown only because the run ended before them.
func (m Summary) Text(unfinished int) string {
	text := fmt.Sprintf("%d ok, %d warning, %d failed, %d skipped, %d unknown", m.OK, m.Warning, m.Failed, m.Skipped,
		m.Unknown-unfinished)
	if unfinished > 0 {
		text += fmt.Sprintf(", %d not finished", unfinished)
	}
	return text
}

// Report is the outcome of a run.
type Report struct {
	SchemaVersion int `json:"schemaVersion"`
	Tool          struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"tool"`
	Cluster struct {
		Context string `json:"context"`
		Server  string `json:"server"`
	} `json:"cluster"`
	Phase      Phase    `json:"phase,omitempty"`
	Summary    Summary  `json:"summary"`
	Checks     []Result `json:"checks"`
	DurationMs int64    `json:"durationMs"`
	Unfinished int      `json:"-"` // number of checks that had not ended when the run did
}

// NewReport returns the report of a run.
func NewReport(f *Facts, took time.Duration, results []Result) Report {
	r := Report{SchemaVersion: SchemaVersion, Phase: f.Phase, Checks: results, DurationMs: took.Milliseconds()}
	r.Tool.Name, r.Tool.Version = "csccm", version.Version
	r.Cluster.Context, r.Cluster.Server = f.Context, f.Server

	count := map[Outcome]*int{
		OK:      &r.Summary.OK,
		Warning: &r.Summary.Warning,
		Failed:  &r.Summary.Failed,
		Skipped: &r.Summary.Skipped,
		Unknown: &r.Summary.Unknown,
	}
	for _, f := range results {
		*count[f.Outcome]++
		if f.Unfinished {
			r.Unfinished++
		}
	}
	return r
}

// Err returns an error with the exit code for the report. It returns nil unless a check failed, or nothing could be
// checked; with failOn SeverityWarning, a warning is an error, too. Unknown outcomes then count as warnings, and so do
// checks that were skipped because of another check.
func (r Report) Err(failOn Severity) error {
	switch m := r.Summary; {
	case m.Failed > 0:
		return &report.Error{Code: report.ExitCheckFailed}
	case r.unjudged():
		c := Find(r.Checks,
			func(c *Result) bool { return c.Outcome == Unknown || m.Unknown == 0 && c.Outcome == Skipped })
		return report.CheckFailed(c.Remedy, "nothing could be judged: %d unknown, %d skipped; %s: %s",
			m.Unknown, m.Skipped, c.Code, c.Message)
	case failOn == SeverityWarning &&
		(m.Warning+m.Unknown > 0 || slices.ContainsFunc(r.Checks, func(c Result) bool { return c.Needs != "" })):
		return &report.Error{Code: report.ExitWarnings}
	}
	return nil
}

// unjudged reports whether all checks were skipped or unknown. The checks of the API server's version are ignored if
// there are others, because every user may read the version.
func (r Report) unjudged() bool {
	others := without(r.Checks, func(c Result) bool { return c.Code == "K8S-001" || c.Code == "K8S-002" })
	return len(others) > 0 &&
		!slices.ContainsFunc(others, func(c Result) bool { return c.Outcome != Skipped && c.Outcome != Unknown })
}

// TextOptions are the options of WriteText.
type TextOptions struct {
	Style report.Style
	// Short omits checks that passed or were skipped.
	Short bool
	// Verbose also shows evidence, durations and all objects.
	Verbose bool
}

// maxObjects limits the objects listed below a result.
const maxObjects = 10

// WriteText writes the report as text: a line for each check, objects, remedy and link below those that did not pass,
// and a summary at the end. Checks that were not finished are only counted; checks that were skipped because of another
// one are listed together.
func (r Report) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	category := ""
	waiting := map[string][]string{} // skipped checks, by the check that they need
	for _, c := range r.Checks {
		switch {
		case c.Unfinished || o.Short && (c.Outcome == OK || c.Outcome == Skipped):
			continue
		case c.Needs != "" && !o.Verbose:
			waiting[c.Needs] = append(waiting[c.Needs], c.Code)
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
			fmt.Sprintf("skipped until %s passes: %s", code, listed(waiting[code]))))
	}

	if b.Len() > 0 && !o.Short {
		b.WriteByte('\n')
	}

	b.WriteString(o.Style.Indented("", 0, r.Summary.Text(r.Unfinished)))
	_, err := io.WriteString(w, b.String())
	return err
}

// text returns one result as text.
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
	b.WriteString(s.Indented(s.Symbol(Symbols[r.Outcome])+" ", s.SymbolWidth()+1, head))

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
			b.WriteString(s.Indented(pad+s.Paint(report.Faint, terminal.Line(k)+":")+" ", indent+len(k)+2,
				r.Evidence[k]))
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

// Symbols are the symbols of the outcomes.
var Symbols = map[Outcome]report.Symbol{
	OK:      report.SymbolOK,
	Warning: report.SymbolWarning,
	Failed:  report.SymbolFailed,
	Skipped: report.SymbolSkipped,
	Unknown: report.SymbolUnknown,
}
