// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
)

//go:generate go run ./gen ../../../docs

// link matches a link of a text that leads to another page.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// anchor returns the anchor of a heading.
func anchor(name string) string { return "#" + strings.ToLower(name) }

// onPage makes the links of a text that lead to the page of runbooks stay on it.
func onPage(text string) string { return strings.ReplaceAll(text, "](runbooks.md#", "](#") }

// plain makes links readable on a terminal.
func plain(text string) string { return link.ReplaceAllString(text, "$1 (docs/$2)") }

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

const generated = "<!-- Generated from the tables of alerts and reasons by installer/commands/explain/gen. Do not edit. -->\n\n"

// saidOnce matches commands that the introduction names.
var saidOnce = regexp.MustCompile("^(kubectl get events -A --field-selector .*|kubectl describe service -n NAMESPACE NAME|csccm plan NAMESPACE/NAME)$")

// noEnd is how what is well ends.
const noEnd = "none needed"

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
			fmt.Fprintf(&b, "\n### %s\n", t.Name)
			for i := range t.Entries {
				t.Entries[i].write(&b, "Event on a "+t.Entries[0].Object+", ")
			}
		}
	}
	return b.String()
}

// write writes what the page says of an entry. The heading has said what the entry is, if that begins with said.
func (e *Entry) write(b *strings.Builder, said string) {
	what := strings.TrimPrefix(e.what, said)
	if e.InCondition != "" {
		what = strings.ReplaceAll(what, e.InCondition, "`"+e.InCondition+"`")
	}
	fmt.Fprintf(b, "\n%s.\n\n**%s** %s\n", what, sentence(onPage(e.When)), onPage(e.Means))
	block(b, "sh", slices.DeleteFunc(slices.Clone(e.See), saidOnce.MatchString))
	block(b, "promql", e.Queries)
	if e.End != noEnd {
		fmt.Fprintf(b, "\nHow to end it: %s\n", sentence(onPage(e.End)))
	}
}

func block(b *strings.Builder, language string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n```%s\n%s\n```\n", language, strings.Join(lines, "\n"))
	}
}

// Plain returns the topic without markup: for programs and terminals.
func (t Topic) Plain() Topic {
	t.Entries = slices.Clone(t.Entries)
	for i := range t.Entries {
		e := &t.Entries[i]
		e.When, e.Means, e.End = sentence(plain(e.When)), sentence(plain(e.Means)), sentence(plain(e.End))
	}
	return t
}

// WriteText writes a plain topic for a person.
func (t Topic) WriteText(w io.Writer, style report.Style) error {
	var b strings.Builder
	const indent = 2
	paragraph := func(text string) { b.WriteString(style.Indented("  ", indent, text)) }
	for i := range t.Entries {
		e := &t.Entries[i]
		b.WriteString(style.Paint(report.Strong, t.Name) + ": " + e.what + "\n\n")
		paragraph(e.When)
		paragraph(e.Means)
		b.WriteString("\n" + style.Paint(report.Strong, "How to see it") + "\n\n")
		for _, line := range e.See {
			b.WriteString("  " + line + "\n") // whole, to be copied
		}
		for _, query := range e.Queries {
			b.WriteString("  PromQL: " + query + "\n")
		}
		b.WriteString("\n" + style.Paint(report.Strong, "How to end it") + "\n\n")
		paragraph(e.End)
		b.WriteString("\n")
	}
	b.WriteString(t.Page + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}
