// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"strings"
	"unicode"
)

type lineKind int

const (
	lineBlank   lineKind = iota // empty or a comment
	lineSection                 // [name]
	lineKey                     // name = value
	lineBroken                  // anything else
)

// configLine is one line of an INI document; the value is still as written.
type configLine struct {
	kind        lineKind
	name, value string
}

// scanLines sorts the lines of a document. It goes by the rules of gcfg, the
// parser of upstream's provider, which differ from other INI dialects in quotes
// and escapes; and it keeps line numbers, so that an error can name a line in
// place of repeating it.
func scanLines(text string) []configLine {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var lines []configLine
	for raw := range strings.SplitSeq(text, "\n") {
		lines = append(lines, scanLine(strings.TrimSpace(raw)))
	}
	return lines
}

func scanLine(s string) configLine {
	switch {
	case s == "" || s[0] == '#' || s[0] == ';':
		return configLine{}
	case s[0] == '[':
		name, rest, ok := strings.Cut(s[1:], "]")
		name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
		if !ok || name == "" || rest != "" && rest[0] != '#' && rest[0] != ';' {
			return configLine{kind: lineBroken}
		}
		return configLine{kind: lineSection, name: name}
	}
	name, value, ok := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	if !ok && strings.EqualFold(name, "ssl-no-verify") { // gcfg takes a bare boolean for true
		value, ok = "true", true
	}
	if !ok || name == "" || strings.ContainsFunc(name, badKeyRune) {
		return configLine{kind: lineBroken}
	}
	return configLine{kind: lineKey, name: name, value: strings.TrimSpace(value)}
}

func badKeyRune(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.' && r != ' '
}
