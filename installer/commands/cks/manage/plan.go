// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/plural"
)

// Action is what a command does about a cluster.
type Action string

// The actions.
const (
	ActionChange Action = "change" // start an operation, and follow it
	ActionFollow Action = "follow" // the operation runs already
	ActionNone   Action = "none"   // the cluster is as it was asked for
)

// Plan is what a command is about to do with a cluster. The run completes it, and it is the result then.
type Plan struct {
	SchemaVersion int    `json:"schemaVersion"`
	Operation     string `json:"operation"` // create, scale, upgrade, start, stop, delete
	Cluster       string `json:"cluster"`
	ID            string `json:"id,omitempty"`
	Project       string `json:"project,omitempty"`
	Action        Action `json:"action"`
	// Why says why nothing is started.
	Why     string   `json:"why,omitempty"`
	Changes []Change `json:"changes"`
	// Findings are those of the preflight.
	Findings []preflight.Finding `json:"findings"`
	// Services are those of type LoadBalancer that are deleted first.
	Services []string `json:"services,omitempty"`

	DryRun bool `json:"dryRun"`
	// Done says that the cluster is as it was asked for.
	Done  bool   `json:"done"`
	State string `json:"state,omitempty"` // of the cluster, as it was seen last; empty when it is gone
	Job   string `json:"job,omitempty"`
	// Cause says why the operation failed, and Events are those of the operation.
	Cause  string  `json:"cause,omitempty"`
	Events []Event `json:"events,omitempty"`
	// With is what is installed into a new cluster.
	With []string `json:"with,omitempty"`
}

// Change is one thing that changes.
type Change struct {
	What string `json:"what"`
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

func newPlan(operation string, k *cloudstack.KubernetesCluster) *Plan {
	return &Plan{
		SchemaVersion: schemaVersion, Operation: operation, Cluster: k.Name, ID: k.ID, State: k.State, Action: ActionChange, Changes: []Change{},
		Findings: []preflight.Finding{},
	}
}

// change notes what differs.
func (p *Plan) change(what, from, to string) {
	if from != to {
		p.Changes = append(p.Changes, Change{what, from, to})
	}
}

// none says that nothing is to do.
func (p *Plan) none(why string) *Plan {
	p.Action, p.Why, p.Done = ActionNone, why, true
	return p
}

// running turns a plan for a cluster that an operation works on into one that follows it, or refuses: CloudStack does one
// operation at a time. states are those of the planned operation.
func (p *Plan) running(k *cloudstack.KubernetesCluster, states ...string) error {
	switch {
	case !inProgress(k.State):
		return nil
	case slices.Contains(states, k.State):
		p.Action, p.Why = ActionFollow, "CloudStack works on it already: it is "+k.State
		return nil
	}
	return &report.Error{
		What: fmt.Sprintf("cluster %s is %s: another operation on it runs, and nothing was changed", k.Name, k.State),
		Fix:  "wait until it is over: csccm cks show " + k.Name + " --watch; then run the command again", Code: report.ExitCheckFailed,
	}
}

// managed refuses a cluster that CloudStack only lists.
func managed(k *cloudstack.KubernetesCluster, operation string) error {
	if k.Type != cloudstack.ExternalManaged {
		return nil
	}
	return report.Usage(fmt.Sprintf("CloudStack cannot %s cluster %s: it is ExternalManaged, CloudStack only lists it", operation, k.Name),
		"change the cluster with what made it; csccm cks list shows which clusters CloudStack made")
}

// what says what a plan does, for the question and errors.
func (p *Plan) what() string { return p.Operation + " cluster " + p.Cluster }

// Write prints the plan for a person.
func (p *Plan) Write(w io.Writer, style report.Style) error {
	var b strings.Builder
	switch p.Action {
	case ActionNone:
		fmt.Fprintf(&b, "Cluster %s: nothing to do, %s\n", p.Cluster, p.Why)
	case ActionFollow:
		fmt.Fprintf(&b, "Cluster %s: following it, %s\n", p.Cluster, p.Why)
	case ActionChange:
		fmt.Fprintf(&b, "To do: %s\n", p.what())
		width := 0
		for _, c := range p.Changes {
			width = max(width, len(c.What))
		}
		for _, c := range p.Changes {
			text := c.To
			if c.From != "" {
				text = c.From + " -> " + c.To
			}
			fmt.Fprintf(&b, "  %-*s  %s\n", width, c.What, text)
		}
		for _, s := range p.Services {
			fmt.Fprintf(&b, "  before that, delete Service %s with its load balancer\n", s)
		}
	}
	for _, name := range p.With {
		fmt.Fprintf(&b, "  when it runs, install %s\n", name)
	}
	for _, f := range p.Findings {
		y := report.SymbolWarning
		if f.Severity == preflight.Error {
			y = report.SymbolFailed
		}
		text := f.String() + " [" + f.Code + "]"
		if f.Reference != "" {
			text += " (" + f.Reference + ")"
		}
		b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, text))
		if f.Remedy != "" {
			b.WriteString(style.Indented("  fix: ", 7, f.Remedy))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// judge returns an error if the preflight found what stops the operation. ignored are codes of findings that do not.
func judge(p *Plan, ignored []string) error {
	var codes, texts []string
	for _, f := range p.Findings {
		if f.Severity == preflight.Error && !slices.Contains(ignored, f.Code) {
			codes, texts = append(codes, f.Code), append(texts, f.String())
		}
	}
	if len(codes) == 0 {
		return nil
	}
	slices.Sort(codes)
	return &report.Error{
		What: fmt.Sprintf("cannot %s, the preflight has found %s: %s; nothing was changed", p.what(), plural.Count(len(codes), "problem"), strings.Join(texts, "; ")),
		Fix:  "correct that; --ignore-preflight " + strings.Join(slices.Compact(codes), ",") + " goes on all the same, and CloudStack decides",
		Code: report.ExitCheckFailed,
	}
}
