// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
)

// Mask replaces secrets in a text; empty ones are no secrets.
func Mask(text string, secrets ...string) string {
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// ShellLine quotes the words of a command for a POSIX shell where needed.
func ShellLine(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'`$&|;<>()*?[]#~!{}\\") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
