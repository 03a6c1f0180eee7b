// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"strings"
	"unicode/utf8"
)

// MinWrap is the smallest width at which Wrap breaks lines. In narrower columns lines overflow.
const MinWrap = 20

// Wrap breaks text into lines of at most width columns, at blanks; a word longer than the width
// stays whole (it may be a URL or a command to copy). Line breaks of the text are kept. Width 0
// means no limit.
func Wrap(text string, width int) []string {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		out = append(out, wrapLine(line, width)...)
	}
	return out
}

func wrapLine(line string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return []string{line}
	}

	if width < MinWrap {
		width = MinWrap
	}

	var (
		out []string
		cur strings.Builder
		n   int
	)

	for _, word := range strings.Fields(line) {
		l := utf8.RuneCountInString(word)
		if n > 0 && n+1+l > width {
			out = append(out, cur.String())
			cur.Reset()
			n = 0
		}
		if n > 0 {
			cur.WriteByte(' ')
			n++
		}
		cur.WriteString(word)
		n += l
	}

	return append(out, cur.String())
}

// Cut shortens text to width; a width of 0 or less means no limit.
func Cut(text string, width int) string {
	const dots = "..."
	runes := []rune(text)
	if width <= len(dots) || len(runes) <= width {
		return text
	}
	return string(runes[:width-len(dots)]) + dots
}
