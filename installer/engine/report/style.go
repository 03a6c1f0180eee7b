// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// ColorAuto and the others are the values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Colors are the values of --color.
var Colors = []string{ColorAuto, ColorAlways, ColorNever}

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

// Detect decides the style for w: colour by the value of --color, NO_COLOR, CLICOLOR_FORCE and TERM, width by the terminal
// (COLUMNS overrides). getenv looks up an environment variable, as os.Getenv.
func Detect(w io.Writer, color string, getenv func(string) string) Style {
	width, tty := terminalWidth(w)
	return decide(color, tty, width, getenv)
}

func decide(color string, tty bool, width int, getenv func(string) string) Style {
	s := Style{TTY: tty, Width: width, Unicode: unicodeLocale(getenv)}
	termName := getenv("TERM")
	if termName == "dumb" {
		s.TTY = false
	}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	force := getenv("CLICOLOR_FORCE")
	switch {
	case color != ColorAuto:
		s.Color = color == ColorAlways
	case getenv("NO_COLOR") != "":
	case force != "" && force != "0":
		s.Color = true
	default:
		s.Color = tty && termName != "dumb"
	}
	return s
}

// unicodeLocale follows the locale variables; without any of them a terminal of today is assumed.
func unicodeLocale(getenv func(string) string) bool {
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

// Paint is a colour of a piece of text: what the terminal's code for it has between [ and m.
type Paint string

// The paints in use; what they mean rather than what they look like.
const (
	Plain   Paint = ""
	Good    Paint = "32"
	Caution Paint = "33"
	Bad     Paint = "31"
	Faint   Paint = "2"
	Strong  Paint = "1"
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
	if !s.Color || text == "" || p == Plain {
		return text
	}
	return terminal.Own("\x1b["+string(p)+"m") + text + terminal.Own("\x1b[0m")
}

// Symbol is a mark in front of a line.
type Symbol struct {
	unicode, ascii string
	paint          Paint
}

// The symbols in use. All are as wide as SymbolWidth says.
var (
	SymbolOK      = Symbol{"✓", "ok  ", Good}
	SymbolWarning = Symbol{"!", "warn", Caution}
	SymbolFailed  = Symbol{"✗", "FAIL", Bad}
	SymbolSkipped = Symbol{"-", "skip", Faint}
	SymbolUnknown = Symbol{"?", "?   ", Caution}
	SymbolArrow   = Symbol{"→", "->  ", Faint}
)

// Symbol draws a mark, coloured.
func (s Style) Symbol(y Symbol) string {
	if s.Unicode {
		return s.Paint(y.paint, y.unicode)
	}
	return s.Paint(y.paint, y.ascii)
}

// SymbolWidth is the number of columns of every Symbol.
func (s Style) SymbolWidth() int {
	if s.Unicode {
		return 1
	}
	return 4
}
