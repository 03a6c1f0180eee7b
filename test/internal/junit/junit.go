// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package junit writes results in the JUnit format that CI systems read.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// Suite is a group of cases.
type Suite struct {
	Name  string
	Cases []Case
}

// Case is one result: passed unless Failure or Skipped is set.
type Case struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Took    Seconds  `xml:"time,attr"`
	Failure *Failure `xml:"failure,omitempty"`
	Skipped *Skipped `xml:"skipped,omitempty"`
	Output  string   `xml:"system-out,omitempty"`
}

// Failure says why a case failed.
type Failure struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// Skipped says why a case was skipped.
type Skipped struct {
	Message string `xml:"message,attr"`
}

// Seconds is a duration that XML shows in seconds.
type Seconds time.Duration

// MarshalXMLAttr implements xml.MarshalerAttr.
func (s Seconds) MarshalXMLAttr(name xml.Name) (xml.Attr, error) {
	return xml.Attr{Name: name, Value: fmt.Sprintf("%.3f", time.Duration(s).Seconds())}, nil
}

type counts struct {
	Name     string  `xml:"name,attr"`
	Tests    int     `xml:"tests,attr"`
	Failures int     `xml:"failures,attr"`
	Skipped  int     `xml:"skipped,attr"`
	Took     Seconds `xml:"time,attr"`
}

type suite struct {
	counts
	Cases []Case `xml:"testcase"`
}

// Write writes the suites of a run that took so long. The time of a suite is the sum of its cases.
func Write(w io.Writer, name string, took time.Duration, suites []Suite) error {
	all := struct {
		XMLName xml.Name `xml:"testsuites"`
		counts
		Suites []suite `xml:"testsuite"`
	}{counts: counts{Name: name, Took: Seconds(took)}}
	for _, s := range suites {
		out := suite{counts{Name: s.Name, Tests: len(s.Cases)}, s.Cases}
		for _, c := range s.Cases {
			out.Took += c.Took
			if c.Failure != nil {
				out.Failures++
			}
			if c.Skipped != nil {
				out.Skipped++
			}
		}
		all.Tests, all.Failures, all.Skipped = all.Tests+out.Tests, all.Failures+out.Failures, all.Skipped+out.Skipped
		all.Suites = append(all.Suites, out)
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
