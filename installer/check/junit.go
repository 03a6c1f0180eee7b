// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
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

// The JUnit form that CI systems read: a suite for each category, a case for each check.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"` // seconds
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Skipped *junitSkipped `xml:"skipped,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"` // the check's code
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes the report for a CI system. What makes the command fail by failOn is a failure;
// warnings otherwise are text of their case.
func (r Report) WriteJUnit(w io.Writer, failOn Severity) error {
	all := junitSuites{Name: "csccm doctor", Time: seconds(r.DurationMs)}
	for _, c := range r.Checks {
		if len(all.Suites) == 0 || all.Suites[len(all.Suites)-1].Name != c.Category {
			all.Suites = append(all.Suites, junitSuite{Name: c.Category})
		}
		s := &all.Suites[len(all.Suites)-1]
		out := junitCase{Class: c.Code, Name: c.Code + " " + c.Title, Time: seconds(c.DurationMs)}
		switch {
		case c.Outcome == Skipped:
			out.Skipped = &junitSkipped{c.Message}
			s.Skipped++
		case c.Outcome == Failed || failOn == SeverityWarning && c.Outcome != OK:
			out.Failure = &junitFailure{c.Code, c.Message, c.plain()}
			s.Failures++
		default:
			out.Output = c.plain()
		}
		s.Tests++
		s.Cases = append(s.Cases, out)
	}
	ms := map[string]int64{}
	for _, c := range r.Checks {
		ms[c.Category] += c.DurationMs
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		s.Time = seconds(ms[s.Name])
		all.Tests, all.Failures, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Skipped+s.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(ms int64) string { return fmt.Sprintf("%.3f", float64(ms)/1000) }

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
