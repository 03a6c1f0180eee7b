// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package exitcodes

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

var meanings = []struct {
	code int
	text string
}{
	{report.ExitOK, "fine"},
	{report.ExitFailure, "the command could not do its work; stderr says why and how to go on"},
	{report.ExitUsage, "something that was given must be corrected first, or nobody has agreed; nothing was changed. For `plan`: something is to do"},
	{report.ExitCheckFailed, "a check or gate did not pass"},
	{report.ExitWarnings, "there are warnings, and `--fail-on=warning` is given"},
	{report.ExitTimeout, "out of time"},
	{report.ExitInterrupted, "interrupted"},
}

// WriteMarkdown writes docs/exit-codes.md.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("<!-- Generated from installer/engine/exitcodes. Do not edit. -->\n\n# Exit codes\n\n" +
		"The same in every format of `-o`.\n\n| code | means |\n|---|---|\n")
	for _, m := range meanings {
		fmt.Fprintf(&b, "| %d | %s |\n", m.code, m.text)
	}
	b.WriteString("\n## Every command in every case\n\nTests run the program for each command of each row.\n\n" +
		"| code | when | commands | tests |\n|---|---|---|---|\n")
	for _, line := range Lines() {
		b.WriteString(line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Lines are the rows of the page's table.
func Lines() []string {
	var out []string
	for _, r := range merged() {
		out = append(out, fmt.Sprintf("| %d | %s | %s | %s |\n", r.code, r.when, strings.Join(r.commands, ", "), strings.Join(r.tests, ", ")))
	}
	return out
}

// line is a row of the page: all rows of a code that read the same.
type line struct {
	code            int
	when            string
	commands, tests []string
}

func merged() []*line {
	var out []*line
	for _, r := range Rows() {
		i := slices.IndexFunc(out, func(l *line) bool { return l.code == r.Code && l.when == r.When })
		if i < 0 {
			i = len(out)
			out = append(out, &line{code: r.Code, when: r.When})
		}
		for _, c := range r.Commands {
			out[i].commands = append(out[i].commands, "`"+strings.TrimSpace("csccm "+c)+"`")
		}
		out[i].tests = append(out[i].tests, fmt.Sprintf("`%s` (%s)", r.Test.Name, r.Test.Dir))
	}
	for _, l := range out {
		slices.Sort(l.commands)
		slices.Sort(l.tests)
		l.commands, l.tests = slices.Compact(l.commands), slices.Compact(l.tests)
	}
	return out
}
