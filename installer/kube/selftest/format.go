// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package selftest

import (
	"fmt"
	"io"
	"strings"
)

// Finding is one thing that the self-test proved, or has a doubt about.
type Finding struct {
	OK            bool
	Subject, Text string
}

// The first words of the lines that a self-test writes.
const (
	markOK      = "ok"
	markWarning = "warning"
	markFailed  = "failed"
	markFix     = "fix"
)

const lineForm = "%-7s  %-8s  %s\n"

// Write writes a finding as a line of the self-test's output.
func Write(out io.Writer, f Finding) error {
	mark := markWarning
	if f.OK {
		mark = markOK
	}
	_, err := fmt.Fprintf(out, lineForm, mark, f.Subject, f.Text)
	return err
}

// WriteFailure writes what the test failed by, and what to do about it; fix may be "".
func WriteFailure(out io.Writer, problem, fix string) error {
	if _, err := fmt.Fprintf(out, lineForm, markFailed, "", oneLine(problem)); err != nil || fix == "" {
		return err
	}
	_, err := fmt.Fprintf(out, lineForm, markFix, "", oneLine(fix))
	return err
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// parse reads what Write and WriteFailure wrote, and passes over other lines.
func parse(text string, r *Result) {
	for line := range strings.SplitSeq(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch mark {
		case markOK, markWarning:
			subject, what, _ := strings.Cut(rest, " ")
			r.Findings = append(r.Findings, Finding{mark == markOK, subject, strings.TrimSpace(what)})
		case markFailed:
			r.Problem = rest
		case markFix:
			r.Fix = rest
		}
	}
}
