// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// defaultWidth is the width where there is no terminal.
const defaultWidth = 132

// title prints the title of a part of a chapter.
func (l *lesson) title(text string) { l.Printf("\n%s\n", l.Style.Paint(report.Strong, text)) }

// compare prints lines of both clusters side by side.
func (l *lesson) compare(without, with []string) {
	l.Printf("\n")
	for i, line := range columns(l.Style.Width, "Without the controller", "With the controller", without, with) {
		if i == 0 {
			line = l.Style.Paint(report.Strong, line)
		}
		l.Printf("%s\n", line)
	}
}

// columns sets two texts side by side in a width; 0 stands for no terminal.
func columns(width int, leftTitle, rightTitle string, left, right []string) []string {
	if width == 0 {
		width = defaultWidth
	}
	half := (width - 3) / 2
	line := func(a, b string) string {
		a, b = terminal.Cut(a, half), terminal.Cut(b, half)
		return strings.TrimRight(a+strings.Repeat(" ", half-utf8.RuneCountInString(a))+" │ "+b, " ")
	}
	out := []string{line(leftTitle, rightTitle)}
	for i := range max(len(left), len(right)) {
		var a, b string
		if i < len(left) {
			a = left[i]
		}
		if i < len(right) {
			b = right[i]
		}
		out = append(out, line(a, b))
	}
	return out
}

// facts returns lines of names and values.
func facts(pairs ...string) (out []string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		value := pairs[i+1]
		if value == "" {
			value = "none"
		}
		out = append(out, fmt.Sprintf("  %-9s %s", pairs[i], value))
	}
	return out
}

// lines splits the output of a command.
func lines(text string) []string {
	out := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return out
}
