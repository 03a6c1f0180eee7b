// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Colors lists the values of --color.
var Colors = []string{ColorAuto, ColorAlways, ColorNever}

// Style is how to format output for one writer.
type Style struct {
	Color   bool // ANSI colours
	Unicode bool // ✓ instead of ok
	TTY     bool // the writer is a terminal: lines may be redrawn
	Width   int  // columns; 0 = unlimited
	// Carry implements Commands; may be nil.
	Carry func(text string) string
}

// Commands adds flags to the csccm commands in a text, so that they work on the same cluster, namespace and release, or
// on the same CloudStack.
func (s Style) Commands(text string) string {
	if s.Carry == nil {
		return text
	}
	return s.Carry(text)
}

// Detect returns the style for w. The colour depends on the value of --color, NO_COLOR, CLICOLOR_FORCE and TERM, the
// width on the terminal (COLUMNS overrides it). getenv returns an environment variable, as os.Getenv does.
func Detect(w io.Writer, color string, getenv func(string) string) Style {
	width := 0
	fd, tty := Terminal(w)
	if tty {
		if width, _, _ = term.GetSize(fd); width < 1 {
			width = 80
		}
	}
	return decide(color, tty, width, getenv)
}

func decide(color string, tty bool, width int, getenv func(string) string) Style {
	name, force := getenv("TERM"), getenv("CLICOLOR_FORCE")
	// Without a locale, assume UTF-8, as current terminals use.
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"), "utf-8"))
	s := Style{TTY: tty && name != "dumb", Width: width}
	s.Unicode = name != "dumb" && name != "linux" && strings.Contains(strings.ReplaceAll(locale, "-", ""), "utf8")
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}

	switch {
	case color != ColorAuto:
		s.Color = color == ColorAlways
	case getenv("NO_COLOR") != "":
	default:
		s.Color = s.TTY || force != "" && force != "0"
	}
	return s
}

// Terminal returns the file descriptor of v, and reports whether v is a terminal.
func Terminal(v any) (fd int, ok bool) {
	f, ok := v.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// Paint is a colour or style of text: the parameters of an ANSI escape sequence, between [ and m.
type Paint string

// Paints, named by their meaning.
const (
	Plain   Paint = ""
	Good    Paint = "32"
	Caution Paint = "33"
	Bad     Paint = "31"
	Faint   Paint = "2"
	Strong  Paint = "1"
)

// signs are the colours of the marks of changes: created, changed or removed.
var signs = map[string]Paint{"+": Good, "~": Caution, "!": Caution, "-": Bad}

// Marked colours the mark of a change at the start of a line.
func (s Style) Marked(line string) string {
	sign, _, _ := strings.Cut(line, " ")
	return s.Paint(signs[sign], sign) + line[len(sign):]
}

// Paint colours text if the style has colours.
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

// Symbols. All have the width SymbolWidth.
var (
	SymbolOK      = Symbol{"✓", "ok  ", Good}
	SymbolWarning = Symbol{"!", "warn", Caution}
	SymbolFailed  = Symbol{"✗", "FAIL", Bad}
	SymbolSkipped = Symbol{"-", "skip", Faint}
	SymbolUnknown = Symbol{"?", "?   ", Caution}
	SymbolArrow   = Symbol{"→", "->  ", Faint}
)

// Symbol returns a symbol as coloured text.
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
