// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"
)

// SetOf returns a set of the names.
func SetOf(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// Like implements SQL's LIKE %k% with a case-insensitive collation, like the database; _ and % in k are wildcards.
func Like(s, k string) bool {
	s, k = strings.ToLower(s), strings.ToLower(k)
	if !strings.ContainsAny(k, "_%") {
		return strings.Contains(s, k)
	}
	return LikeMatch([]rune(s), []rune("%"+k+"%"))
}

// LikeMatch reports whether s matches a LIKE pattern, in time proportional to the product of their lengths.
func LikeMatch(s, p []rune) bool {
	i, j, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case j < len(p) && p[j] == '%':
			star, mark = j, i
			j++
		case j < len(p) && (p[j] == '_' || p[j] == s[i]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	for j < len(p) && p[j] == '%' {
		j++
	}
	return j == len(p)
}
