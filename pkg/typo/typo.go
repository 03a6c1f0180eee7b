// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package typo finds the existing names that are most similar to a mistyped one.
package typo

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the known names that are closest to a mistyped one, three at most, sorted. It ignores case. Names
// with an edit distance greater than most are left out.
func Nearest(name string, known []string, most int) []string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	distance := func(k string) int { return levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(k)) }
	for _, k := range known {
		most = min(most, distance(k))
	}
	near := slices.DeleteFunc(known, func(k string) bool { return distance(k) > most })
	return near[:min(len(near), 3)]
}
