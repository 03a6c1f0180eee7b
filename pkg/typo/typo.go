// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package typo measures how similar a mistyped name is to an existing one.
package typo

import (
	"cmp"
	"slices"
	"strings"
)

// Distance returns the Levenshtein distance: the number of bytes to change, add or remove to turn a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// Nearest returns the known names that a mistyped one is closest to, three at most, whatever the case of the letters; sorted.
func Nearest(name string, known []string) []string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	distance := func(k string) int { return Distance(strings.ToLower(name), strings.ToLower(k)) }
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	near := slices.DeleteFunc(known, func(k string) bool { return distance(k) > distance(known[0]) })
	return near[:min(len(near), 3)]
}
