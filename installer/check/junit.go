// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine/junit"
)

// WriteYAML writes the report as YAML with the fields of Schema.
func (r Report) WriteYAML(w io.Writer) error {
	raw, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// WriteJUnit writes the report for a CI system: a suite for each category, a case for each check. What makes the command
// fail by failOn is a failure; other warnings are the output of their case.
func (r Report) WriteJUnit(w io.Writer, failOn Severity) error {
	var suites []junit.Suite
	for _, c := range r.Checks {
		if len(suites) == 0 || suites[len(suites)-1].Name != c.Category {
			suites = append(suites, junit.Suite{Name: c.Category})
		}
		out := junit.Case{Class: c.Code, Name: c.Code + " " + c.Title, Took: junit.Seconds(milliseconds(c.DurationMs))}
		switch {
		case c.Outcome == Skipped:
			out.Skipped = &junit.Skipped{Message: c.Message}
		case c.Outcome == Failed || failOn == SeverityWarning && c.Outcome != OK:
			out.Failure = &junit.Failure{Type: c.Code, Message: c.Message, Text: c.plain()}
		default:
			out.Output = c.plain()
		}
		s := &suites[len(suites)-1]
		s.Cases = append(s.Cases, out)
	}
	return junit.Write(w, "csccm doctor", milliseconds(r.DurationMs), suites)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// plain is the result in words, without colours.
func (c Result) plain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", c.Outcome, c.Message)
	for _, o := range c.Objects {
		fmt.Fprintf(&b, "- %s", o)
		if o.Message != "" {
			b.WriteString(": " + o.Message)
		}
		b.WriteByte('\n')
	}
	if c.Remedy != "" {
		fmt.Fprintf(&b, "fix: %s\nsee: %s\n", c.Remedy, c.Hint)
	}
	return b.String()
}
