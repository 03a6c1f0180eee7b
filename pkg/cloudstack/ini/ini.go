// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ini scans INI files by the rules of gcfg, the parser of upstream's provider, whose quotes and escapes differ
// from those of other INI dialects.
package ini

import (
	"errors"
	"strings"
	"unicode"
)

// Kind is the kind of a line.
type Kind int

// Kinds of lines.
const (
	Blank   Kind = iota // empty or a comment
	Section             // [Name]
	Key                 // Name = Value
	Bare                // Name, without an equals sign
	Broken              // anything else
)

// Line is one line of a file. Value is as written, see Unquote.
type Line struct {
	Kind        Kind
	Name, Value string
}

// Scan returns all lines of a file, so that an error can name a line by its number in place of repeating it.
func Scan(text string) []Line {
	var lines []Line
	for raw := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		lines = append(lines, scanLine(strings.TrimSpace(raw)))
	}
	return lines
}

func scanLine(s string) Line {
	if s == "" || isComment(s) {
		return Line{}
	}

	if s[0] == '[' {
		name, rest, ok := strings.Cut(s[1:], "]")
		name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
		if !ok || name == "" || rest != "" && !isComment(rest) {
			return Line{Kind: Broken}
		}
		return Line{Kind: Section, Name: name}
	}

	name, value, ok := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	switch {
	case name == "" || strings.ContainsFunc(name, badKeyRune):
		return Line{Kind: Broken}
	case !ok:
		return Line{Kind: Bare, Name: name}
	}

	return Line{Kind: Key, Name: name, Value: strings.TrimSpace(value)}
}

func isComment(s string) bool { return s[0] == '#' || s[0] == ';' }

func badKeyRune(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.' && r != ' '
}

var escapes = map[byte]byte{'n': '\n', 't': '\t', '"': '"', '\\': '\\'}

// Unquote returns a value without quotes and comment. Double quotes may hold \", \\, \n and \t; outside quotes a
// comment begins with # or ; after a blank.
func Unquote(raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if !strings.HasPrefix(raw, `"`) {
		return bare(raw), nil
	}

	var b strings.Builder
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			if rest := strings.TrimSpace(raw[i+1:]); rest != "" && !isComment(rest) {
				return "", errors.New(`has text after the closing quote; write \" for a quote inside`)
			}
			return b.String(), nil
		case '\\':
			if i++; i == len(raw) {
				return "", errors.New("has no closing quote")
			}
			c, known := escapes[raw[i]]
			if !known {
				return "", errors.New(`has an unknown escape; inside quotes write \\ for a backslash`)
			}
			b.WriteByte(c)
		default:
			b.WriteByte(raw[i])
		}
	}

	return "", errors.New("has no closing quote")
}

// bare returns an unquoted value without its comment. Single quotes around it are dropped.
func bare(raw string) string {
	for i := range len(raw) {
		if isComment(raw[i:]) && (i == 0 || raw[i-1] == ' ' || raw[i-1] == '\t') {
			raw = strings.TrimSpace(raw[:i])
			break
		}
	}
	if len(raw) >= 2 && raw[0] == '\'' && raw[len(raw)-1] == '\'' {
		raw = raw[1 : len(raw)-1]
	}
	return raw
}

// Quote returns a value as it is written into a file: in double quotes if Unquote or gcfg would misread it otherwise.
func Quote(v string) string {
	if v == strings.TrimSpace(v) && !strings.ContainsAny(v, "\"'\\#;\n\r\t`") {
		return v
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", " ", "\t", `\t`).Replace(v) + `"`
}
