// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chapters

import (
	"fmt"
	"strings"
)

const pageHead = `# What a cloud controller manager does: a lesson

` + "`make lesson`" + ` shows two Kubernetes clusters side by side, one without and one with a cloud controller manager. It needs Linux, Go
and make, nothing else, and ends in under three minutes once the control plane is built. On a terminal it waits for Enter after each
chapter, and the commands of "Try" can be typed in a second terminal; ` + "`bin/lesson --auto`" + ` does not wait. ` + "`bin/lesson --ui`" + ` shows both
clusters and their cloud on one page in the browser, too. [A recorded run](transcripts/lesson.txt).

The lesson prints nothing that it has not observed: each line with a mark is a check, and the program fails (exit code 1) when one of
them does not hold. It runs the commands of "Try" as well. This page is generated from the program's text.

`

// Page returns docs/lesson.md.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	fmt.Fprintf(&b, "%s\n", Before)
	for i, c := range All {
		fmt.Fprintf(&b, "\n## %d. %s\n\n%s\n\n**Look**\n\n", i+1, c.Title, c.Intro)
		for _, l := range c.Look {
			fmt.Fprintf(&b, "- %s\n", l.Text)
		}
		b.WriteString("\n**Try**\n\n| command | shows |\n|---|---|\n")
		for _, t := range c.Try {
			fmt.Fprintf(&b, "| `%s` | %s |\n", t.Line, strings.ReplaceAll(t.Shows, "<pending>", "`<pending>`"))
		}
		b.WriteString("\n**Code**\n\n| function | what it does |\n|---|---|\n")
		for _, f := range c.Code {
			fmt.Fprintf(&b, "| `%s` in [%s](../%s) | %s |\n", f.Func, f.File, f.File, f.Does)
		}
	}
	fmt.Fprintf(&b, "\n## What it was\n\n%s\n", After)
	return b.String()
}
