// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check/tenants"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// WriteText prints the plan for a person.
func (p *Plan) WriteText(out io.Writer, style report.Style) error {
	var b strings.Builder
	for i := range p.Predecessors {
		old := &p.Predecessors[i]
		fmt.Fprintf(&b, "Other controller: %s (%s, image %s), %d wanted\n", old, old.Family, old.Image, old.Wanted)
	}
	switch p.Order {
	case OursFirst:
		fmt.Fprintf(&b, "Order: csccm's controller starts before the old one ends: %s\n", p.Why)
	case OldFirst:
		fmt.Fprintf(&b, "Order: the old controller ends before csccm's starts: %s\n", p.Why)
	case Nothing: // the caller prints that there is nothing to do, or the problem
	}
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		fmt.Fprintf(&b, "Chart value that keeps the nodes' form: %s=%s\n", name, p.Values[name])
	}
	for _, problem := range p.Problems {
		b.WriteString(style.Indented(style.Symbol(report.SymbolFailed)+" ", style.SymbolWidth()+1, problem.Text))
	}
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "RULES", "CHANGES"}}
	var differences, all strings.Builder
	for i := range p.Services {
		s := &p.Services[i]
		changes := "none"
		if n := len(s.Changes); n > 0 {
			changes = english.Plural(n, "change", "")
			fmt.Fprintf(&all, "Changes of %s:\n", s.Service)
		}
		if s.NeedsConsent() && !s.Pinned {
			changes += ", need consent"
		}
		t.Add(s.Service, s.Address, fmt.Sprint(len(s.Rules)), changes)
		for j := range s.Differences {
			y, text := s.Differences[j].line(s.Pinned)
			differences.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, s.Service+": "+text))
		}
		for j := range s.Changes {
			sign := s.Changes[j].sign()
			all.WriteString(style.Indented("  "+style.Paint(report.SignPaint(sign), sign)+" ", 4, s.Changes[j].Text))
		}
	}
	if len(t.Rows) > 0 {
		_ = t.Write(&b, style)
	}
	b.WriteString(differences.String() + all.String())
	if n := len(p.Rules.Steps); n > 0 {
		fmt.Fprintf(&b, "Rules: %s, in place; csccm migrate-rules --dry-run lists them\n", rules.ToDo(p.Rules.Steps))
	}
	if len(p.Tenants) > 0 {
		b.WriteString("The policy for tenants (chart value tenancy) refuses what Services use now:\n")
		for i := range p.Tenants {
			r := &p.Tenants[i]
			b.WriteString(style.Indented(style.Symbol(report.SymbolWarning)+" ", style.SymbolWidth()+1, r.Service+": "+r.Message))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// line is a difference for a person. With a pin it does not come to be.
func (d *Difference) line(pinned bool) (y report.Symbol, text string) {
	switch {
	case !d.Consent:
		return report.SymbolOK, d.Text
	case d.Pin == nil:
		return report.SymbolWarning, d.Text
	case pinned:
		return report.SymbolOK, fmt.Sprintf("%s, but for the annotation that --pin sets: %s=%q", d.Text, d.Pin.Annotation, d.Pin.Value)
	}
	return report.SymbolWarning, fmt.Sprintf("%s (--pin keeps it: %s=%q)", d.Text, d.Pin.Annotation, d.Pin.Value)
}

// Afterwards says what is left of the old controllers, how to go back to them and how to remove them.
func (p *Plan) Afterwards() string {
	text := "The old controller is still there, with no Pods. Back to it:  csccm takeover --undo\n"
	for i := range p.Predecessors {
		text += "When nobody goes back to it:  " + p.Predecessors[i].Deletion() + "\n"
	}
	return text
}

// Kinds of changes beside those of the controller's actions.
const (
	ChangeRename   = "rename-rule"
	ChangeSurplus  = "delete-surplus-rule"
	ChangeAnnotate = "annotate-service" // to keep what is there
)

// Change is one object in CloudStack, or annotation of the Service, that is made, changed or deleted.
type Change struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Action is set where the controller does it; csccm does the others before.
	Action *plan.Step `json:"action,omitempty"`
}

// sign marks the change in a list.
func (c *Change) sign() string {
	switch {
	case c.Action != nil:
		return c.Action.Sign()
	case c.Kind == ChangeSurplus:
		return "-"
	}
	return "~"
}

// changes returns all that happens to a Service: its pins, what csccm does to its rules, and the controller's plan.
func (w *current) changes(service string, pins map[string]string, actions []plan.Step) []Change {
	out := []Change{}
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		out = append(out, Change{Kind: ChangeAnnotate, Text: fmt.Sprintf("set annotation %s=%q on the Service", name, pins[name])})
	}
	for i := range w.renames {
		s := &w.renames[i]
		if s.Service != service {
			continue
		}
		if s.Action == rules.ActionDelete {
			out = append(out, Change{Kind: ChangeSurplus, Text: fmt.Sprintf("delete rule %s of port %d on %s, which another rule serves", s.From, s.Port, s.PublicIP)})
			continue
		}
		out = append(out, Change{Kind: ChangeRename, Text: fmt.Sprintf("rename rule %s of port %d on %s to %s", s.From, s.Port, s.PublicIP, s.To)})
	}
	for i := range actions {
		out = append(out, Change{Kind: actions[i].Kind, Text: actions[i].Label(), Action: &actions[i]})
	}
	return out
}

// Pin has the plan show what happens with the annotations that keep what is there, for the Services named (All for
// every one).
func (p *Plan) Pin(names []string) {
	for i := range p.Services {
		if s := &p.Services[i]; s.pinned != nil && Named(names, s.Service) {
			s.Changes, s.Pinned = s.pinned, true
		}
	}
}

// planTenants compares the Services with the policy of csccm's controller, where it is installed already.
func planTenants(ctx context.Context, c *cluster.Cluster, facts *Facts) ([]tenants.Refusal, error) {
	view := tenants.View{Services: facts.Services}
	rules := make([]cloudstack.LoadBalancerRule, len(facts.Rules))
	for i := range facts.Rules {
		rules[i] = facts.Rules[i].LoadBalancerRule
	}
	view.Addresses = tenants.Addresses(facts.Addresses, rules, facts.Services, facts.ClusterIDs)
	return tenants.PlanOf(ctx, c.Kube, facts.Own.Words, view)
}
