// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package typo measures how similar a mistyped name is to an existing one.
package typo

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
