// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

//go:generate go run ./gen ../../../docs

// link matches a link of a text that leads to another page.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

const generated = "<!-- Generated from the tables of alerts and reasons by installer/commands/explain/gen. Do not edit. -->\n\n"

// saidOnce matches commands that the introduction names.
var saidOnce = regexp.MustCompile("(?m)^(kubectl get events -A --field-selector .*|kubectl describe service -n NAMESPACE NAME|csccm plan NAMESPACE/NAME)\n")

const intro = generated + `# Runbooks

What these names mean, how to see more, and how to end the problem: [alerts](#alerts) of the chart (` + "`prometheusRule.enabled`" + `), [Events on
Services](#events-on-services) and [on Nodes](#events-on-nodes), and [reasons of conditions](#conditions-of-a-service). To see an Event:
` + "`kubectl get events -A --field-selector reason=NAME`. For a Service: `kubectl describe service -n NAMESPACE NAME` and\n`csccm plan NAMESPACE/NAME`" + `.
` + "`csccm doctor --explain NAME`" + ` prints the same without a network, also for the code of a [check](checks.md).
`

// Page is docs/runbooks.md, a section for each family. Checks have docs/checks.md.
func Page() string {
	var b strings.Builder
	b.WriteString(intro)
	for _, family := range []string{"Alerts", "Events on Services", "Events on Nodes", "Conditions of a Service"} {
		fmt.Fprintf(&b, "\n## %s\n", family)
		for _, t := range Topics() {
			if t.Entries[0].family != family {
				continue // a name has one heading, so that links find it
			}
			text := saidOnce.ReplaceAllString(strings.ReplaceAll(t.text(), "](runbooks.md#", "](#"), "")
			text = strings.NewReplacer("\n```sh\n```\n", "", "\nEvent on a "+t.Entries[0].Object+", ", "\n").Replace(text)
			fmt.Fprintf(&b, "\n### %s\n%s", t.Name, text)
		}
	}
	return b.String()
}

// text is what is said below the heading of a topic.
func (t Topic) text() string {
	var b strings.Builder
	for _, e := range t.Entries {
		fmt.Fprintf(&b, "\n%s.\n\n**%s** %s\n", e.what, sentence(e.When), e.Means)
		for _, block := range [][]string{append([]string{"sh"}, e.See...), append([]string{"promql"}, e.Queries...)} {
			if len(block) > 1 {
				fmt.Fprintf(&b, "\n```%s\n```\n", strings.Join(block, "\n"))
			}
		}
		if e.End != "none needed" {
			fmt.Fprintf(&b, "\nHow to end it: %s\n", sentence(e.End))
		}
	}
	return b.String()
}

// WriteText writes a topic for a person, as its page has it, with links that a terminal shows.
func (t Topic) WriteText(w io.Writer, style report.Style) error {
	var b strings.Builder
	code := false
	for line := range strings.SplitSeq(t.Name+"\n"+link.ReplaceAllString(t.text(), "$1 (docs/$2)")+"\n"+t.Page, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if !code {
			line = strings.TrimSuffix(style.Indented("", 0, line), "\n")
		}
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
