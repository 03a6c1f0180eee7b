// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Plan is what a command would do, in enough detail to show it and ask for consent. It contains no secrets.
type Plan struct {
	SchemaVersion int      `json:"schemaVersion"`
	Title         string   `json:"title,omitempty"` // first line of the text
	DryRun        bool     `json:"dryRun"`
	Context       Context  `json:"context"`
	Changes       []Change `json:"changes"`
	Warnings      []string `json:"warnings,omitempty"`
	// Details are values for programs besides the changes. The steps complete them.
	Details any `json:"details,omitempty"`
	// Done lists the changes made by the steps; it is empty if the plan was not carried out.
	Done []string `json:"done,omitempty"`
}

// Context is the cluster that a plan is for.
type Context struct {
	Context   string `json:"context"`
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
	// CloudStack describes the cloud of a command that uses no cluster, whose other fields are then empty.
	CloudStack string `json:"cloudStack,omitempty"`
	// Version is the version of Kubernetes. Commands that do not read it omit Version and Nodes.
	Version string `json:"version,omitempty"`
	Nodes   int    `json:"nodes,omitempty"`
}

// Change is one thing that a plan changes or keeps.
type Change struct {
	Part string `json:"part"` // the subject, such as Secret
	Text string `json:"text"`
	// Lines have details as text, Details for programs; both may be empty.
	Lines   []string `json:"lines,omitempty"`
	Details any      `json:"details,omitempty"`
}

// NewPlan returns an empty plan for the command's cluster or CloudStack.
func (e *Env) NewPlan() *Plan {
	at := Context{CloudStack: e.Place}
	if c := e.Cluster; c != nil {
		at = Context{Context: c.Context, Server: c.Server, Namespace: c.Namespace}
	}

	return &Plan{SchemaVersion: 1, DryRun: e.DryRun, Context: at, Changes: []Change{}}
}

// Add appends a change. details is for programs.
func (p *Plan) Add(part, text string, details any, lines ...string) {
	p.Changes = append(p.Changes, Change{Part: part, Text: text, Details: details, Lines: lines})
}

// Text returns the plan as text.
func (p *Plan) Text(style report.Style) string {
	var b strings.Builder
	if p.Title != "" {
		b.WriteString(terminal.Line(p.Title) + "\n")
	}

	width := 11 // of the parts
	for _, c := range p.Changes {
		width = max(width, len(c.Part))
	}

	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %-*s %s\n", width, c.Part, terminal.Line(style.Commands(c.Text)))
		for _, l := range c.Lines {
			fmt.Fprintf(&b, "              %s\n", style.Marked(terminal.Line(l)))
		}
	}
	for _, text := range p.Warnings {
		b.WriteString(style.Indented("  ! ", 4, text))
	}
	return b.String()
}
