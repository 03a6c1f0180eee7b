// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plural writes numbers with their nouns.
package plural

import (
	"strconv"
	"strings"
)

// Count returns n and the noun in its right form: 1 rule, 2 rules, 3 addresses, 0 policies.
func Count(n int, noun string) string { return strconv.Itoa(n) + " " + Noun(n, noun) }

// Noun returns the form of a noun for a number.
func Noun(n int, noun string) string {
	switch {
	case n == 1:
		return noun
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "x"):
		return noun + "es"
	case strings.HasSuffix(noun, "cy"), strings.HasSuffix(noun, "ry"):
		return strings.TrimSuffix(noun, "y") + "ies"
	}
	return noun + "s"
}

// Verb returns the form of a verb for a number, such as Verb(n, "is", "are").
func Verb(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
