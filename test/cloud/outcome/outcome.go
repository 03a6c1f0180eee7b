// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outcome is what a run of the suite found, as a table.
package outcome

import (
	"fmt"
	"strings"
	"time"

	"github.com/csccm/csccm/test/cloud/shape"
)

// Verdict of a scenario.
type Verdict string

// The verdicts. What cannot be done on a cloud is not passed.
const (
	Passed Verdict = "ok"
	Failed Verdict = "failed"
	Cannot Verdict = "cannot"
)

// Result of one scenario.
type Result struct {
	Name    string
	Verdict Verdict
	Took    time.Duration
	// Calls are those of the product.
	Calls int
	// Seen is a note, the reason why it cannot be done here, or what went wrong.
	Seen string
}

// Report of a run.
type Report struct {
	// Cloud, Version and Kubernetes say what was tested on.
	Cloud, Version, Kubernetes string
	Took                       time.Duration
	Results                    []Result
	// Unknown are shapes of answers that are not recorded.
	Unknown []shape.Unknown
	// Refused are the calls that the guard stopped.
	Refused []string
	// Left is why something may be left in the cloud.
	Left error
}

// Count returns how many scenarios have a verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Verdict == v {
			n++
		}
	}
	return n
}

// OK reports whether nothing failed, something passed, the guard had nothing to refuse and nothing is left.
func (r *Report) OK() bool {
	return r.Count(Failed) == 0 && r.Count(Passed) > 0 && len(r.Refused) == 0 && r.Left == nil
}

// Markdown returns the report as a page's part.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, CloudStack %s, Kubernetes %s: %d passed, %d failed, %d cannot be done here, in %s.\n\n", //nolint:dupword // a sentence
		r.Cloud, r.Version, r.Kubernetes, r.Count(Passed), r.Count(Failed), r.Count(Cannot), r.Took.Round(time.Second))
	b.WriteString("| scenario | result | seconds | calls | what was seen |\n|---|---|---|---|---|\n")
	for _, x := range r.Results {
		verdict := string(x.Verdict)
		if x.Verdict == Failed {
			verdict = "**failed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f | %d | %s |\n", x.Name, verdict, x.Took.Seconds(), x.Calls, cell(x.Seen))
	}
	if len(r.Refused) > 0 {
		b.WriteString("\nThe guard refused these calls, so the run failed:\n\n")
		for _, text := range r.Refused {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	fmt.Fprintf(&b, "\nAnswers with a shape that is not recorded: %d.\n", len(r.Unknown))
	if len(r.Unknown) > 0 {
		b.WriteString("\n")
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&b, "- %s\n", u)
	}
	if r.Left != nil {
		fmt.Fprintf(&b, "\nNot everything was removed: %v\n", r.Left)
	}
	return b.String()
}

// cell is a text in one line that does not end a table's cell.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}
