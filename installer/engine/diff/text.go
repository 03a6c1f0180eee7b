// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"strings"
)

// Summary counts changes, for example "3 to create, 1 to change, 5 as they are".
func Summary(changes []Change) string {
	counts := map[string]int{}
	for i := range changes {
		counts[changes[i].Action]++
	}
	var parts []string
	for _, p := range []struct{ action, text string }{
		{Create, "to create"}, {Update, "to change"}, {Delete, "to delete"}, {Keep, "as wanted"},
	} {
		if n := counts[p.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, p.text))
		}
	}
	if len(parts) == 0 {
		return "no objects"
	}
	return strings.Join(parts, ", ")
}

// Text shows the changes, each line behind indent; what stays is left out.
func Text(changes []Change, indent string) string {
	var b strings.Builder
	for i := range changes {
		c := &changes[i]
		if c.Action == Keep && c.Problem == "" {
			continue
		}
		fmt.Fprintf(&b, "%s%s %s\n", indent, c.Action, c.Object())
		for _, l := range c.Lines {
			fmt.Fprintf(&b, "%s  %s\n", indent, l)
		}
		if c.Problem != "" {
			fmt.Fprintf(&b, "%s  ! %s\n", indent, c.Problem)
		}
	}
	return b.String()
}
