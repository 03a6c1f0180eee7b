// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"slices"
	"strings"
)

// mostTries is how many shorter histories are played.
const mostTries = 200

// shrink leaves out lines of a history, and words of lines, while it still fails in the same way.
func shrink(h history, fails func(history) bool) history {
	tries := 0
	again := func(h history) bool {
		tries++
		return tries <= mostTries && fails(h)
	}
	h.steps = fewer(h.steps, len(h.steps)/2, func(steps []string) bool { return again(history{h.setup, steps}) })
	h.setup = fewer(h.setup, 1, func(setup []string) bool { return again(history{setup, h.steps}) })
	for i := range h.setup {
		h.setup[i] = fewerWords(h.setup[i], 2, func(line string) bool {
			return again(history{replaced(h.setup, i, line),
				h.steps})
		})
	}
	for i := range h.steps {
		switch verb, _, _ := strings.Cut(h.steps[i], " "); verb {
		case "service", "edit":
			h.steps[i] = fewerWords(h.steps[i], 3, func(line string) bool {
				return again(history{h.setup,
					replaced(h.steps, i, line)})
			})
		}
	}
	return h
}

// fewer leaves out runs of a list, at first long ones.
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

// fewerWords leaves out words of a line, but for the first ones.
func fewerWords(line string, first int, fails func(string) bool) string {
	words := strings.Fields(line)
	first = min(first, len(words))
	rest := fewer(words[first:], 1, func(rest []string) bool {
		return fails(strings.Join(slices.Concat(words[:first],
			rest), " "))
	})
	return strings.Join(slices.Concat(words[:first], rest), " ")
}

// replaced returns a list with another line.
func replaced(list []string, at int, line string) []string {
	list = slices.Clone(list)
	list[at] = line
	return list
}
