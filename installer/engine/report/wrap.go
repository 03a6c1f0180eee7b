// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Indented wraps text to the style's width and puts first in front of the first line and as many
// blanks in front of the others. indent is the number of columns that first takes.
func (s Style) Indented(first string, indent int, text string) string {
	width := 0
	if s.Width > 0 {
		width = max(s.Width-indent, terminal.MinWrap)
	}
	// Text from outside is no line of its own. What csccm writes itself has no line breaks.
	text = strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(strings.TrimRight(s.Commands(text), "\n"))
	var b strings.Builder
	for i, l := range terminal.Wrap(text, width) {
		if i == 0 {
			b.WriteString(first)
		} else {
			b.WriteString(strings.Repeat(" ", indent))
		}
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.String()
}
