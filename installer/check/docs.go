// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteMarkdown writes the documentation of all checks: a section for each code, whose anchor is
// the code in lower case.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`<!-- Generated from the table of checks by installer/commands/explain/gen. Do not edit. -->

# Checks

` + "`csccm doctor`" + ` runs these checks; ` + "`csccm install`" + ` runs those of the preflight phase before it changes
anything, and the others when it is done. A check that rests on another one is skipped when that one does
not pass.

| outcome | text | means |
|---|---|---|
| ` + "`ok`" + ` | ✓ | as it should be |
| ` + "`warning`" + ` | ! | not as it should be, but it works |
| ` + "`failed`" + ` | ✗ | does not work, or will not |
| ` + "`skipped`" + ` | - | does not apply, or a check it rests on did not pass |
| ` + "`unknown`" + ` | ? | could not be found out; counts as a warning |

` + "`csccm doctor -o json`" + ` writes what [report.schema.json](../installer/check/report.schema.json) describes.
`)
	catalogue := All()
	category := ""
	for i := range catalogue {
		c := &catalogue[i]
		if c.Category != category {
			category = c.Category
			fmt.Fprintf(&b, "\n## %s\n", category)
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s** (%s; %s). %s\n\n*Why it matters:* %s\n\n*Remedy:* %s.\n", c.Code, c.Title, c.Severity, phases(c), c.What, c.Why, c.RemedyInDocs())
		if len(c.Needs) > 0 {
			fmt.Fprintf(&b, "\n*Rests on:* %s.\n", links(c.Needs))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// RemedyInDocs is the remedy with placeholders that a reader replaces.
func (c *Check) RemedyInDocs() string { return upperFirst(inDocs.Replace(c.Remedy)) }

func phases(c *Check) string {
	var out []string
	for _, p := range c.Phases {
		out = append(out, string(p))
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(b, a) }) // preflight first
	return strings.Join(out, ", ")
}

func links(codes []string) string {
	var out []string
	for _, c := range codes {
		out = append(out, fmt.Sprintf("[%s](#%s)", c, Anchor(c)))
	}
	return strings.Join(out, ", ")
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
