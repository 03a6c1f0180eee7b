// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/check/decide"
)

// WriteMarkdown writes the documentation of all checks: a section for each code, whose anchor is
// the code in lower case.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`<!-- Generated from the table of checks by installer/commands/explain/gen. Do not edit. -->

# Checks

` + "`csccm doctor`" + ` runs these checks; ` + "`csccm install`" + ` runs those of the preflight phase before it changes
anything, and the others at its end. A check is skipped when one that it needs does not pass. Checks of the cluster also need K8S-001.

| outcome | text | means |
|---|---|---|
| ` + "`ok`" + ` | ✓ | as expected |
| ` + "`warning`" + ` | ! | a problem, but it works |
| ` + "`failed`" + ` | ✗ | does not work, or soon will not |
| ` + "`skipped`" + ` | - | does not apply, or a check that it needs did not pass |
| ` + "`unknown`" + ` | ? | could not be checked; counts as a warning |

` + "`csccm doctor -o json`" + ` writes what [report.schema.json](../installer/check/report.schema.json) describes.
`)
	catalogue := All()
	category := ""
	for i := range catalogue {
		c := &catalogue[i]
		if c.Category() != category {
			category = c.Category()
			fmt.Fprintf(&b, "\n## %s\n", category)
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s** (%s; %s). %s\n\n*Why it matters:* %s\n\n*Remedy:* %s.\n", c.Code, c.Title, c.Severity, phases(c), c.What, c.Why, c.RemedyInDocs())
		if needs := slices.DeleteFunc(slices.Clone(c.Needs), func(code string) bool { return code == "K8S-001" }); len(needs) > 0 {
			fmt.Fprintf(&b, "\n*Needs:* %s.\n", links(needs))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func phases(c *decide.Check) string {
	if c.Phase == "" {
		return "preflight, installed"
	}
	return string(c.Phase)
}

func links(codes []string) string {
	var out []string
	for _, c := range codes {
		out = append(out, fmt.Sprintf("[%s](#%s)", c, decide.Anchor(c)))
	}
	return strings.Join(out, ", ")
}
