// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package terminal prevents untrusted text from controlling a terminal: names, messages and versions from Kubernetes
// and CloudStack can be written by anyone. All that csccm writes to a terminal goes through a Writer.
package terminal

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/csccm/csccm/pkg/redact"
)

// mark encloses control sequences of the program itself. Untrusted text cannot contain it, because it is random.
var mark = "\x00" + rand.Text() + "\x00"

// Own marks a control sequence of the program itself, such as a colour, so that a Writer does not escape it. The
// sequence must not contain untrusted text.
func Own(sequence string) string { return mark + sequence + mark }

// Plain escapes what does not print: control characters except newline and tab, direction marks and other invisible
// characters, line separators. Escapes are those of JSON, so that JSON keeps its meaning. Bytes that are not UTF-8
// become U+FFFD.
func Plain(s string) string {
	if strings.IndexFunc(s, escapes) < 0 {
		return s
	}

	var b strings.Builder
	for _, r := range s {
		switch {
		case !escapes(r):
			b.WriteRune(r)
		case r == utf8.RuneError:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}

	return b.String()
}

// Line is like Plain but also escapes newlines and tabs, for text that must stay on one line, such as a name in a
// table.
func Line(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Plain(s))
}

// escapes reports whether Plain escapes or replaces r; true for invalid UTF-8.
func escapes(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsGraphic(r) || r == utf8.RuneError
}

type writer struct {
	io.Writer
	rest []byte // the beginning of a character or mark that the next Write completes
	own  bool   // between a pair of marks
}

// file is a writer that keeps the descriptor of its terminal or file: styles depend on it.
type file struct{ *writer }

func (f file) Fd() uintptr { return f.Writer.(interface{ Fd() uintptr }).Fd() } //nolint:forcetypeassert // see Writer

// Writer returns a writer that escapes like Plain and removes passwords from URLs, except in text that Own marked.
func Writer(w io.Writer) io.Writer {
	switch w := w.(type) {
	case *writer, file:
		return w
	case interface{ Fd() uintptr }:
		return file{&writer{Writer: w.(io.Writer)}} //nolint:forcetypeassert // w is one
	}
	return &writer{Writer: w}
}

// Raw returns the writer that was passed to Writer, for a program that draws on the terminal itself.
func Raw(w io.Writer) io.Writer {
	switch w := w.(type) {
	case file:
		return w.Writer
	case *writer:
		return w.Writer
	}
	return w
}

func (w *writer) Write(p []byte) (int, error) {
	text := slices.Concat(w.rest, p)
	var out strings.Builder
	for {
		before, after, found := bytes.Cut(text, []byte(mark))
		if !found {
			break
		}
		w.write(&out, before)
		text, w.own = after, !w.own
	}
	end := len(text) - begun(text)
	w.write(&out, text[:end])
	w.rest = bytes.Clone(text[end:])
	if _, err := io.WriteString(w.Writer, out.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) write(out *strings.Builder, text []byte) {
	if w.own {
		out.Write(text)
	} else {
		out.WriteString(Plain(redact.URLs(string(text))))
	}
}

// begun returns how many bytes at the end of text may be the beginning of a mark or character.
func begun(text []byte) int {
	if i := bytes.LastIndexByte(text, 0); i >= 0 &&
		len(text)-i < len(mark) &&
		strings.HasPrefix(mark, string(text[i:])) {
		return len(text) - i
	}
	for n := 1; n <= min(len(text), utf8.UTFMax-1); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			break
		}
	}
	return 0
}
