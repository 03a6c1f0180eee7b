// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"strings"
)

// mostTries is the largest number of shorter histories that shrink plays.
const mostTries = 200

// shrink removes lines of a history, and words of lines, as long as the history still fails in the same way.
func shrink(h history, fails func(history) bool) history {
	tries := 0
	again := func(h []string) bool {
		tries++
		return tries <= mostTries && fails(h)
	}

	h = fewer(h, len(h)/2, again)
	for i, line := range h {
		words := strings.Fields(line)
		needed := map[string]int{"world": 2, "service": 3, "edit": 3}[words[0]]
		if needed == 0 || needed >= len(words) {
			continue
		}
		with := func(rest []string) string { return strings.Join(slices.Concat(words[:needed], rest), " ") }
		rest := fewer(words[needed:], 1, func(rest []string) bool {
			return again(slices.Concat(h[:i], []string{with(rest)}, h[i+1:]))
		})
		h[i] = with(rest)
	}

	return h
}

// fewer removes runs of a list, long ones first, as long as fails reports true for the rest.
func fewer(list []string, size int, fails func([]string) bool) []string {
	for size = max(1, size); size >= 1; size /= 2 {
		for at := 0; at < len(list); {
			end := min(len(list), at+size)
			if shorter := slices.Concat(list[:at], list[end:]); fails(shorter) {
				list = shorter
			} else {
				at = end
			}
		}
	}
	return list
}
