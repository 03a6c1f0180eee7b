// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
)

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
