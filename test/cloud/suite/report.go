// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"strings"
	"time"
)

// The verdicts. What cannot be done on a cloud is not passed.
const (
	passed = "ok"
	failed = "**failed**"
	unable = "cannot"
)

// Result of one scenario.
type Result struct {
	Name    string
	Verdict string
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
	Unknown []string
	// Refused are the calls that the guard stopped.
	Refused []string
	// Left is why something may be left in the cloud.
	Left error
}

// count returns how many scenarios have a verdict.
func (r *Report) count(verdict string) (n int) {
	for i := range r.Results {
		if r.Results[i].Verdict == verdict {
			n++
		}
	}
	return n
}

// OK reports whether nothing failed, something passed, the guard had nothing to refuse and nothing is left.
func (r *Report) OK() bool {
	return r.count(failed) == 0 && r.count(passed) > 0 && len(r.Refused) == 0 && r.Left == nil
}

// Markdown returns the report as a page's part.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, CloudStack %s, Kubernetes %s: %d passed, %d failed, %d cannot be done here, in %s.\n\n", //nolint:dupword // a sentence
		r.Cloud, r.Version, r.Kubernetes, r.count(passed), r.count(failed), r.count(unable), r.Took.Round(time.Second))
	b.WriteString("| scenario | result | seconds | calls | what was seen |\n|---|---|---|---|---|\n")
	for _, x := range r.Results {
		seen := strings.ReplaceAll(strings.Join(strings.Fields(x.Seen), " "), "|", "\\|") // does not end the table's cell
		fmt.Fprintf(&b, "| %s | %s | %.1f | %d | %s |\n", x.Name, x.Verdict, x.Took.Seconds(), x.Calls, seen)
	}
	list := func(title string, items []string) {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(append([]string{title}, items...), "\n\n- "))
	}
	if len(r.Refused) > 0 {
		list("The guard refused these calls, so the run failed:", r.Refused)
	}
	list(fmt.Sprintf("Answers with a shape that is not recorded: %d.", len(r.Unknown)), r.Unknown)
	if r.Left != nil {
		fmt.Fprintf(&b, "\nNot everything was removed: %v\n", r.Left)
	}
	return b.String()
}
