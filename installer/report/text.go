// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Indented wraps text to the style's width. It starts the first line with first and indents the others. indent is the
// number of columns of first.
func (s Style) Indented(first string, indent int, text string) string {
	width := 0
	if s.Width > 0 {
		width = max(s.Width-indent, terminal.MinWrap)
	}

	// csccm's own texts have no line breaks. Text of other programs must not start lines of its own, so escape them.
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

// Count returns a number with its noun, such as 1 node or 2 nodes.
func Count(n int, noun string) string { return english.Plural(n, noun, "") }

// Capital returns a text that begins with a capital letter.
func Capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// Table is a table with aligned columns, as kubectl prints them.
type Table struct {
	Header []string
	Rows   [][]string // cells beyond the header are not shown
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
	head, rows, _ := strings.Cut(t.text(), "\n")
	_, err := io.WriteString(w, s.Paint(Strong, head)+"\n"+rows)
	return err
}

// Width returns the number of columns of a terminal that the table needs.
func (t *Table) Width() (width int) {
	for line := range strings.Lines(t.text()) {
		width = max(width, utf8.RuneCountInString(line)-1)
	}
	return width
}

func (t *Table) text() string {
	const gap = 3 // blanks between columns
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, gap, ' ', 0)
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		_, _ = io.WriteString(w, strings.Join(row[:min(len(row), len(t.Header))], "\t")+"\n")
	}
	_ = w.Flush()
	return b.String()
}

// Mask replaces secrets in a text by ***; it ignores empty secrets.
func Mask(text string, secrets ...string) string {
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// ShellLine quotes the words of a command for a POSIX shell where needed.
func ShellLine(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'`$&|;<>()*?[]#~!{}\\") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
