// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	_ "embed"
	"fmt"
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
		Outcome: f.Outcome, Message: f.Message, Objects: f.Objects, Evidence: f.Evidence,
		DurationMs: took.Milliseconds(), Unfinished: f.Unfinished,
	}
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
	// Arrays and objects are never null for the reader of the JSON.
	if r.Objects == nil {
		r.Objects = []Object{}
	}
	if r.Evidence == nil {
		r.Evidence = map[string]string{}
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

// Tool is the program that made a report.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// ClusterInfo is the cluster that a report is about.
type ClusterInfo struct {
	Context string `json:"context"`
	Server  string `json:"server"`
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
	SchemaVersion int         `json:"schemaVersion"`
	Tool          Tool        `json:"tool"`
	Cluster       ClusterInfo `json:"cluster"`
	Phase         Phase       `json:"phase,omitempty"`
	Summary       Summary     `json:"summary"`
	Checks        []Result    `json:"checks"`
	DurationMs    int64       `json:"durationMs"`
}

func newReport(in *reading, sel Selection, results []Result) Report {
	r := Report{
		SchemaVersion: SchemaVersion, Tool: Tool{Name: "csccm", Version: version.Version},
		Phase: sel.Phase, Checks: results, DurationMs: in.Clock.Since(in.f.At).Milliseconds(),
		Cluster: ClusterInfo{Context: in.f.Context, Server: in.f.Server},
	}
	if r.Checks == nil {
		r.Checks = []Result{}
	}
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

// ExitCode is the process's exit code for the report: ExitCheckFailed when a check failed,
// or nothing could be judged, ExitWarnings when failOn is SeverityWarning and something is less than well. What could not be
// found out counts as a warning.
func (r Report) ExitCode(failOn Severity) int {
	switch {
	case r.Summary.Failed > 0, r.unjudged():
		return report.ExitCheckFailed
	case failOn == SeverityWarning && r.Summary.Warning+r.Summary.Unknown > 0:
		return report.ExitWarnings
	}
	return report.ExitOK
}

// unjudged reports whether all checks were skipped or unknown. Checks of the API server's version do not count beside
// others: everybody may ask for it.
func (r Report) unjudged() bool {
	others := 0
	for i := range r.Checks {
		switch c := &r.Checks[i]; {
		case c.Code == "K8S-001" || c.Code == "K8S-002":
		case c.Outcome == Skipped || c.Outcome == Unknown:
			others++
		default:
			return false
		}
	}
	return others > 0
}

// unjudgedError says why a run of checks found out nothing. Unknown is not success: the exit code is that of a failed check.
func (r Report) unjudgedError() error {
	text, remedy := fmt.Sprintf("nothing could be judged: %d unknown, %d skipped", r.Summary.Unknown, r.Summary.Skipped), ""
	for _, outcome := range []Outcome{Unknown, Skipped} {
		i := slices.IndexFunc(r.Checks, func(c Result) bool { return c.Outcome == outcome })
		if i >= 0 {
			text, remedy = fmt.Sprintf("%s; %s: %s", text, r.Checks[i].Code, r.Checks[i].Message), r.Checks[i].Remedy
			break
		}
	}
	return &report.Error{What: text, Fix: remedy, Code: report.ExitCheckFailed}
}

// Err is an error with the exit code and nothing more to say, or nil.
func (r Report) Err(failOn Severity) error {
	if r.Summary.Failed == 0 && r.unjudged() {
		return r.unjudgedError()
	}
	if code := r.ExitCode(failOn); code != report.ExitOK {
		return &report.Error{Code: code}
	}
	return nil
}
