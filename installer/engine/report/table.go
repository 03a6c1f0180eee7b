// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Table is text in aligned columns, as kubectl prints it.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) {
	row := make([]string, 0, len(cells))
	for _, c := range cells {
		row = append(row, terminal.Line(c))
	}
	t.Rows = append(t.Rows, row)
}

// Write prints the table.
func (t *Table) Write(w io.Writer, s Style) error {
	widths := t.widths()
	var b strings.Builder
	line(&b, t.Header, widths, func(c string) string { return s.Paint(Strong, c) })
	for _, row := range t.Rows {
		line(&b, row, widths, func(c string) string { return c })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Width is how many columns of a screen the table takes.
func (t *Table) Width() int {
	total := -gap
	for _, n := range t.widths() {
		total += n + gap
	}
	return total
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.Header))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for i, c := range row {
			if i < len(widths) {
				widths[i] = max(widths[i], utf8.RuneCountInString(c))
			}
		}
	}
	return widths
}

// gap is the number of blanks between columns.
const gap = 3

func line(b *strings.Builder, cells []string, widths []int, paint func(string) string) {
	for i, c := range cells {
		if i >= len(widths) {
			break
		}
		b.WriteString(paint(c))
		if i < len(cells)-1 && i < len(widths)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+gap))
		}
	}
	b.WriteByte('\n')
}
