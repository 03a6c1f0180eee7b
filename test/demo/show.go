// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

// heading prints the heading of a step.
func (d *demo) heading(number int, title string) {
	text := fmt.Sprintf("%d. %s", number, title)
	d.printf("\n%s\n%s\n", d.style.Paint(report.Strong, text), d.style.Paint(report.Faint, strings.Repeat("-", len(text))))
}

// say prints a paragraph of explanation.
func (d *demo) say(format string, a ...any) {
	width := d.style.Width
	if width == 0 || width > 100 {
		width = 100
	}
	for _, line := range report.Wrap(fmt.Sprintf(format, a...), width) {
		d.printf("%s\n", line)
	}
}

// echo prints a command with a prompt.
func (d *demo) echo(command string) {
	d.printf("\n%s %s\n", d.style.Paint(report.Strong, "$"), d.style.Paint(report.Strong, command))
}

func (d *demo) printf(format string, a ...any) { _, _ = fmt.Fprintf(d.out, format, a...) }

// tail prints the last lines of a log with its name and path.
func tail(w io.Writer, name, path, text string) {
	if text == "" {
		return
	}
	_, _ = fmt.Fprintf(w, "\nlast lines of %s (%s):\n%s\n", name, path, text)
}
