// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package exitcodes

import (
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

var meanings = []struct {
	code int
	text string
}{
	{report.ExitOK, "fine"},
	{report.ExitFailure, "the command could not do its work; stderr says why and how to go on"},
	{report.ExitUsage, "something that was given must be corrected first, or nobody has agreed; nothing was changed. With `plan --detailed-exitcode`: something is to do"},
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
	_, err := io.WriteString(w, b.String())
	return err
}
