// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// ColorMode is the value of --color.
type ColorMode string

// Values of --color.
const (
	ColorAuto   ColorMode = "auto"
	ColorAlways ColorMode = "always"
	ColorNever  ColorMode = "never"
)

// String, Set and Type make a ColorMode a flag value.
func (m *ColorMode) String() string { return string(*m) }

// Set implements pflag.Value.
func (m *ColorMode) Set(s string) error {
	switch ColorMode(s) {
	case ColorAuto, ColorAlways, ColorNever:
		*m = ColorMode(s)
		return nil
	}
	return fmt.Errorf("%q is not one of auto, always, never", s)
}

// Type implements pflag.Value.
func (m *ColorMode) Type() string { return "auto|always|never" }

// Style is how to draw on one writer.
type Style struct {
	Color   bool // ANSI colours
	Unicode bool // ✓ instead of ok
	TTY     bool // the writer is a terminal: lines may be redrawn
	Width   int  // columns; 0 = unlimited
	// Carry is what Commands does; may be nil.
	Carry func(text string) string
}

// Commands has the command lines in a text name the cluster, the namespace and the release, or the CloudStack, that they work on.
func (s Style) Commands(text string) string {
	if s.Carry == nil {
		return text
	}
	return s.Carry(text)
}

// Getenv looks up an environment variable, as os.Getenv.
type Getenv func(key string) string

// Detect decides the style for w: colour by mode, NO_COLOR, CLICOLOR_FORCE and TERM, width by the
// terminal (COLUMNS overrides). getenv nil means the process environment.
func Detect(w io.Writer, mode ColorMode, getenv Getenv) Style {
	if getenv == nil {
		getenv = os.Getenv
	}
	width, tty := terminalWidth(w)
	return decide(mode, tty, width, getenv)
}

func decide(mode ColorMode, tty bool, width int, getenv Getenv) Style {
	s := Style{TTY: tty, Width: width, Unicode: unicodeLocale(getenv)}
	termName := getenv("TERM")
	if termName == "dumb" {
		s.TTY = false
	}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	switch mode {
	case ColorAlways:
		s.Color = true
	case ColorNever:
	default:
		force := getenv("CLICOLOR_FORCE")
		switch {
		case getenv("NO_COLOR") != "":
		case force != "" && force != "0":
			s.Color = true
		default:
			s.Color = tty && termName != "dumb"
		}
	}
	return s
}

// unicodeLocale follows the locale variables; without any of them a terminal of today is assumed.
func unicodeLocale(getenv Getenv) bool {
	if t := getenv("TERM"); t == "dumb" || t == "linux" {
		return false
	}
	for _, k := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(k); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

func terminalWidth(w io.Writer) (width int, tty bool) {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return 0, false
	}
	width, _, err := term.GetSize(fd)
	if err != nil || width < 1 {
		width = 80
	}
	return width, true
}

// Paint is a colour of a piece of text.
type Paint int

// The paints in use; what they mean rather than what they look like.
const (
	Plain Paint = iota
	Good
	Caution
	Bad
	Faint
	Strong
)

// SignPaint is the colour of the mark of a change: + for what is made, ~ for what is changed, - for what is removed.
func SignPaint(sign string) Paint {
	switch sign {
	case "+":
		return Good
	case "-":
		return Bad
	}
	return Caution
}

// Marked colours the mark of a change at the beginning of a line; see SignPaint.
func (s Style) Marked(line string) string {
	sign, text, found := strings.Cut(line, " ")
	if !found || !slices.Contains([]string{"+", "-", "~", "!"}, sign) {
		return line
	}
	return s.Paint(SignPaint(sign), sign) + " " + text
}

// Paint colours text where the style allows it.
func (s Style) Paint(p Paint, text string) string {
	if !s.Color || text == "" {
		return text
	}
	var code string
	switch p {
	case Good:
		code = "32"
	case Caution:
		code = "33"
	case Bad:
		code = "31"
	case Faint:
		code = "2"
	case Strong:
		code = "1"
	case Plain:
		return text
	}
	return terminal.Own("\x1b["+code+"m") + text + terminal.Own("\x1b[0m")
}

// Symbol is a mark in front of a line.
type Symbol int

// The symbols in use.
const (
	SymbolOK Symbol = iota
	SymbolWarning
	SymbolFailed
	SymbolSkipped
	SymbolUnknown
	SymbolArrow
)

// Symbol draws a mark, coloured; all have the same width (one column, or four in ASCII).
func (s Style) Symbol(y Symbol) string {
	type look struct {
		unicode, ascii string
		paint          Paint
	}
	var l look
	switch y {
	case SymbolOK:
		l = look{"✓", "ok  ", Good}
	case SymbolWarning:
		l = look{"!", "warn", Caution}
	case SymbolFailed:
		l = look{"✗", "FAIL", Bad}
	case SymbolSkipped:
		l = look{"-", "skip", Faint}
	case SymbolUnknown:
		l = look{"?", "?   ", Caution}
	case SymbolArrow:
		l = look{"→", "->  ", Faint}
	}
	if s.Unicode {
		return s.Paint(l.paint, l.unicode)
	}
	return s.Paint(l.paint, l.ascii)
}

// SymbolWidth is the number of columns of every Symbol.
func (s Style) SymbolWidth() int {
	if s.Unicode {
		return 1
	}
	return 4
}
