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

//go:generate go run ./gen ../../../docs/runbooks

// link matches a link of a text that leads to another page.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// fromRunbooks makes the links of a text start at docs/runbooks.
func fromRunbooks(text string) string {
	return link.ReplaceAllStringFunc(text, func(l string) string {
		m := link.FindStringSubmatch(l)
		if here, ok := strings.CutPrefix(m[2], "runbooks/"); ok {
			return "[" + m[1] + "](" + here + ")"
		}
		return "[" + m[1] + "](../" + m[2] + ")"
	})
}

// plain makes links readable on a terminal.
func plain(text string) string { return link.ReplaceAllString(text, "$1 (docs/$2)") }

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + strings.TrimSuffix(".", text[len(text)-1:])
}

// what says in one line what has the name.
func (e *Entry) what() string {
	switch e.Kind {
	case Alert:
		return "Alert, " + e.Severity + ", after " + e.For
	case Check:
		return "Check of csccm doctor, " + e.Severity
	case Condition:
		return "Reason of a condition of a " + e.Object
	case Event:
	}
	text := "Event on a " + e.Object + ", " + e.Severity
	if e.InCondition != "" {
		text += "; reason of the condition " + e.InCondition
	}
	return text
}

const generated = "<!-- Generated from the tables of alerts and reasons by installer/commands/explain/gen. Do not edit. -->\n\n"

// Pages are the files of docs/runbooks: one for each alert and reason, and an index. Checks have docs/checks.md.
func Pages() map[string]string {
	out := map[string]string{"README.md": index()}
	for _, t := range Topics() {
		if t.Entries[0].Kind == Check {
			continue
		}
		var b strings.Builder
		b.WriteString(generated + "# " + t.Name + "\n")
		for i := range t.Entries {
			e := &t.Entries[i]
			head := "##"
			if len(t.Entries) > 1 {
				fmt.Fprintf(&b, "\n## On a %s\n", e.Object)
				head = "###"
			}
			fmt.Fprintf(&b, "\n%s.\n\n**%s** %s\n", strings.ReplaceAll(e.what(), e.InCondition, code(e.InCondition)), sentence(fromRunbooks(e.When)), fromRunbooks(e.Means))
			fmt.Fprintf(&b, "\n%s How to see it\n", head)
			block(&b, "sh", e.See)
			block(&b, "promql", e.Queries)
			fmt.Fprintf(&b, "\n%s How to end it\n\n%s\n", head, sentence(fromRunbooks(e.End)))
		}
		out[t.Name+".md"] = b.String()
	}
	return out
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func block(b *strings.Builder, language string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(b, "\n```%s\n%s\n```\n", language, strings.Join(lines, "\n"))
	}
}

func index() string {
	var alerts, conditions strings.Builder
	for _, t := range Topics() {
		switch e := &t.Entries[0]; e.Kind {
		case Alert:
			fmt.Fprintf(&alerts, "| [%s](%s.md) | %s | %s | %s |\n", t.Name, t.Name, e.Severity, e.For, e.When)
		case Condition:
			fmt.Fprintf(&conditions, "| [`%s`](%s.md) | %s |\n", t.Name, t.Name, fromRunbooks(e.When))
		case Check, Event:
		}
	}
	return generated + `# Runbooks

One page for each alert of the chart and each reason of an Event or a condition: what it means, how to see it, how to end it.
` + "`csccm doctor --explain NAME`" + ` prints the same without a network, also for the code of a [check](../checks.md).

## Alerts

The chart creates them with ` + "`prometheusRule.enabled`" + ` ([metrics](../metrics.md)); their annotation ` + "`runbook_url`" + ` leads here.

| alert | severity | after | summary |
|---|---|---|---|
` + alerts.String() + `
## Events

The tables are where the rest of the subject is: [Events on Services](../troubleshooting.md#events-on-services),
[Events on Nodes](../nodes.md#finding-the-vm).

## Conditions of a Service

A refused Service has the reason of its Event in the condition, too. Besides:

| reason | when |
|---|---|
` + conditions.String()
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
	paragraph := func(text string) { b.WriteString(style.Indented("  ", indent, text) + "\n") }
	for i := range t.Entries {
		e := &t.Entries[i]
		b.WriteString(style.Paint(report.Strong, t.Name) + ": " + e.what() + "\n\n")
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
