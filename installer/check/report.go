// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/version"
)

// SchemaVersion is that of the JSON report; it grows when a field changes its meaning.
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
	Outcome  Outcome  `json:"result"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Objects  []Object `json:"objects"`
	// Evidence is what the outcome rests on.
	Evidence map[string]string `json:"evidence"`
	// Remedy is set when the outcome is warning, failed or unknown.
	Remedy     string `json:"remedy,omitempty"`
	Hint       string `json:"hint"`
	DurationMs int64  `json:"durationMs"`
	// Unfinished: the whole run ended before the check. Programs read that as unknown; a person is told how many.
	Unfinished bool `json:"-"`
	// needs is the check for which this one was skipped: the first that did not pass. A person is told once.
	needs string
}

func resultOf(c *decide.Check, f Finding, took time.Duration) Result {
	r := Result{
		Code: c.Code, Category: c.Category(), Title: c.Title, Severity: c.Severity, Hint: c.Hint(),
		Outcome: f.Outcome, Message: f.Message, Objects: append([]Object{}, f.Objects...), Evidence: map[string]string{}, // never null
		DurationMs: took.Milliseconds(), Unfinished: f.Unfinished,
	}
	maps.Copy(r.Evidence, f.Evidence)
	if r.Outcome == "" {
		r.Outcome = Failed
		if c.Severity == SeverityWarning {
			r.Outcome = Warning
		}
	}
	switch r.Outcome {
	case Failed, Warning:
		r.Remedy = cmp.Or(f.Remedy, c.Remedy)
	case Unknown:
		r.Remedy = f.Remedy
	case OK, Skipped:
	}
	return r
}

// without removes secrets. No check shows any; but Events and logs that it quotes are written by others.
func (r Result) without(secrets ...string) Result {
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
}

func newReport(in *reading, sel Selection, results []Result) Report {
	r := Report{SchemaVersion: SchemaVersion, Phase: sel.Phase, Checks: results, DurationMs: in.Clock.Since(in.f.At).Milliseconds()}
	r.Tool.Name, r.Tool.Version = "csccm", version.Version
	r.Cluster.Context, r.Cluster.Server = in.f.Context, in.f.Server
	count := map[Outcome]*int{OK: &r.Summary.OK, Warning: &r.Summary.Warning, Failed: &r.Summary.Failed, Skipped: &r.Summary.Skipped, Unknown: &r.Summary.Unknown}
	for i := range results {
		*count[results[i].Outcome]++
	}
	return r
}

// Unfinished is how many checks had not ended when the run did.
func (r Report) Unfinished() (n int) {
	for i := range r.Checks {
		if r.Checks[i].Unfinished {
			n++
		}
	}
	return n
}

// Err is an error with the exit code for the report, or nil: a check failed, or nothing could be judged, which is no success;
// with failOn SeverityWarning, something is less than well. What could not be found out counts as a warning.
func (r Report) Err(failOn Severity) error {
	switch m := r.Summary; {
	case m.Failed > 0:
		return &report.Error{Code: report.ExitCheckFailed}
	case r.unjudged():
		i := slices.IndexFunc(r.Checks, func(c Result) bool { return c.Outcome == Unknown })
		if i < 0 {
			i = slices.IndexFunc(r.Checks, func(c Result) bool { return c.Outcome == Skipped })
		}
		c := &r.Checks[i]
		what := fmt.Sprintf("nothing could be judged: %d unknown, %d skipped; %s: %s", m.Unknown, m.Skipped, c.Code, c.Message)
		return &report.Error{What: what, Fix: c.Remedy, Code: report.ExitCheckFailed}
	case failOn == SeverityWarning && m.Warning+m.Unknown > 0:
		return &report.Error{Code: report.ExitWarnings}
	}
	return nil
}

// unjudged reports whether all checks were skipped or unknown. Checks of the API server's version do not count beside
// others: everybody may ask for it.
func (r Report) unjudged() bool {
	others := slices.DeleteFunc(slices.Clone(r.Checks), func(c Result) bool { return c.Code == "K8S-001" || c.Code == "K8S-002" })
	return len(others) > 0 && !slices.ContainsFunc(others, func(c Result) bool { return c.Outcome != Skipped && c.Outcome != Unknown })
}
