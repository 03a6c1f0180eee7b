// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"slices"
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

// Text shows the changes in lines; what stays is left out. Several objects that are created are one line unless all is set.
func Text(changes []Change, all bool) (lines []string) {
	created := func(c Change) bool { return c.Action == Create && c.Problem == "" }
	n := len(changes) - len(slices.DeleteFunc(slices.Clone(changes), created))
	if all = all || n < 2; !all {
		lines = append(lines, fmt.Sprintf("create %d objects (-v lists them)", n))
	}
	for i := range changes {
		c := &changes[i]
		if c.Action == Keep && c.Problem == "" || created(*c) && !all {
			continue
		}
		lines = append(lines, c.Action+" "+c.Object())
		for _, l := range c.Lines {
			lines = append(lines, "  "+l)
		}
		if c.Problem != "" {
			lines = append(lines, "  ! "+c.Problem)
		}
	}
	return lines
}

// Different reports whether anything would change.
func Different(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Action != Keep })
}
