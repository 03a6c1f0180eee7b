// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"regexp"
	"strings"
	"time"

	"github.com/hinshun/vt10x"
)

// line is the final state of a row of the terminal, and the time at which it was complete.
type line struct {
	At   time.Duration
	Runs []textRun
}

func (l line) text() string {
	var b strings.Builder
	for _, r := range l.Runs {
		b.WriteString(strings.Repeat(" ", r.Column-len([]rune(b.String()))))
		b.WriteString(r.Text)
	}
	return b.String()
}

// textRun is text of one style that starts at a column.
type textRun struct {
	Column int
	Text   string
	Paint  paint
}

// paint is the CSS class of text; style defines the colours.
type paint string

const (
	plain  paint = ""
	strong paint = "b"
	faint  paint = "f"
	red    paint = "r"
	green  paint = "g"
	yellow paint = "y"
)

// screen is a terminal that records when each row changed last.
type screen struct {
	vt      vt10x.Terminal
	columns int
	started time.Time
	rows    []string
	changed []time.Duration
}

func newScreen(columns, height int, now time.Time) *screen {
	return &screen{vt: vt10x.New(vt10x.WithSize(columns, height)), columns: columns, started: now}
}

// write processes output of the program. The terminal library does not support faint text, so it becomes dark grey.
func (s *screen) write(b []byte, now time.Time) {
	if len(b) == 0 {
		return
	}
	_, _ = s.vt.Write(bytes.ReplaceAll(b, []byte("\x1b[2m"), []byte("\x1b[90m")))
	at := now.Sub(s.started)
	for y := 0; y <= s.vt.Cursor().Y; y++ {
		text := s.row(y)
		if y == len(s.rows) {
			s.rows, s.changed = append(s.rows, ""), append(s.changed, at)
		}
		if text != s.rows[y] {
			s.rows[y], s.changed[y] = text, at
		}
	}
}

func (s *screen) row(y int) string {
	var b strings.Builder
	for x := range s.columns {
		b.WriteRune(s.vt.Cell(x, y).Char)
	}
	return strings.TrimRight(strings.ReplaceAll(b.String(), "\x00", " "), " ")
}

// tail returns the last n rows.
func (s *screen) tail(n int) string {
	return strings.Join(s.rows[max(0, len(s.rows)-n):], "\n")
}

// lines returns the rows up to the last that is not empty. No row is complete before the one above it.
func (s *screen) lines() []line {
	last := len(s.rows)
	for last > 0 && s.rows[last-1] == "" {
		last--
	}
	var out []line
	at := time.Duration(0)
	for y := range last {
		at = max(at, s.changed[y])
		out = append(out, line{At: at, Runs: s.runs(y)})
	}
	return out
}

func (s *screen) runs(y int) []textRun {
	var out []textRun
	width := len([]rune(s.rows[y]))
	for x := range width {
		cell := s.vt.Cell(x, y)
		r := cell.Char
		if r == 0 {
			r = ' '
		}
		p := paintOf(cell)
		if n := len(out); n > 0 && (out[n-1].Paint == p || r == ' ') && out[n-1].Column+len([]rune(out[n-1].Text)) == x {
			out[n-1].Text += string(r)
		} else {
			out = append(out, textRun{x, string(r), p})
		}
	}
	return out
}

// bold is vt10x's mode bit for bold text, which it does not export.
const bold = 1 << 2

func paintOf(c vt10x.Glyph) paint {
	switch c.FG {
	case vt10x.Red, vt10x.LightRed:
		return red
	case vt10x.Green, vt10x.LightGreen:
		return green
	case vt10x.Yellow, vt10x.LightYellow:
		return yellow
	case vt10x.DarkGrey:
		return faint
	default:
		if c.Mode&bold != 0 {
			return strong
		}
		return plain
	}
}

// A CloudStack key has 86 characters without separators. Names of Pods and leases are long as well, but consist of
// short words.
var (
	long  = regexp.MustCompile(`[A-Za-z0-9_-]{64,}`)
	words = regexp.MustCompile(`^[a-z0-9]{1,16}(?:[-_][a-z0-9]{1,16})+$`)
)

// suspicious returns the first text that could be a key; "" when there is none.
func suspicious(lines []line) string {
	var all strings.Builder
	for _, l := range lines {
		all.WriteString(l.text() + "\n")
	}
	for _, found := range long.FindAllString(all.String(), -1) {
		if !words.MatchString(found) && strings.Trim(found, "-") != "" {
			return found
		}
	}
	return ""
}
