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
	Context       Context  `json:"context"`
	Changes       []Change `json:"changes"`
	Warnings      []string `json:"warnings,omitempty"`
	// Done lists the changes made by the steps; it is empty if the plan was not carried out.
	Done []string `json:"done,omitempty"`
}

// Context is the cluster that a plan is for.
type Context struct {
	Context   string `json:"context"`
	Server    string `json:"server"`
	Namespace string `json:"namespace"`
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

// NewPlan returns an empty plan for the command's cluster.
func (e *Env) NewPlan() *Plan {
	return &Plan{
		SchemaVersion: 1,
		Changes:       []Change{},
		Context:       Context{Context: e.Cluster.Context, Server: e.Cluster.Server, Namespace: e.Cluster.Namespace},
	}
}

// Add appends a change. details is for programs.
func (p *Plan) Add(part, text string, details any, lines ...string) {
	p.Changes = append(p.Changes, Change{Part: part, Text: text, Details: details, Lines: lines})
}

// Text returns the plan as text.
func (p *Plan) Text(style report.Style) string {
	var b strings.Builder
	if at := &p.Context; at.Version != "" { // without a version, the operation names the cluster
		fmt.Fprintf(&b, "Plan for %s (%s), Kubernetes %s, %s:\n", at.Context, at.Server, at.Version,
			report.Count(at.Nodes, "node"))
	}

	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %-11s %s\n", c.Part, terminal.Line(style.Commands(c.Text)))
		for _, l := range c.Lines {
			fmt.Fprintf(&b, "              %s\n", style.Marked(terminal.Line(l)))
		}
	}
	for _, text := range p.Warnings {
		b.WriteString(style.Indented("  ! ", 4, text))
	}
	return b.String()
}
