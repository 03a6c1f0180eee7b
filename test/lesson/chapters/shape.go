// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chapters

import (
	"fmt"
	"strings"
)

// Marks in front of the lines of a chapter.
const (
	Seen    = "✓ "
	Command = "$ "
)

// Heading is the first line of a chapter.
func (c Chapter) Heading(number int) string { return fmt.Sprintf("%d. %s", number, c.Title) }

// Line is the line of a function.
func (c Code) Line() string { return c.File + " " + c.Func }

// Shape returns an error unless a run of the lesson has all its chapters in order, and in each of them, in order, the claims, commands
// and functions. What was observed differs between runs and is not compared; neither are line breaks.
func Shape(run string) error {
	rest := strings.Join(strings.Fields(run), " ")
	for _, text := range parts() {
		i := strings.Index(rest, text)
		if i < 0 {
			return fmt.Errorf("%q is missing, or not in its place", text)
		}
		rest = rest[i+len(text):]
	}
	return nil
}

// parts are what a run prints of the chapters, in order.
func parts() (out []string) {
	for i, c := range All {
		out = append(out, c.Heading(i+1)+" --")
		for _, l := range c.Look {
			out = append(out, Seen+l.Text)
		}
		for _, t := range c.Try {
			out = append(out, Command+t.Line)
		}
		for _, f := range c.Code {
			out = append(out, f.Line())
		}
	}
	return out
}
