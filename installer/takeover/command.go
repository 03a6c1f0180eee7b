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

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
)

// State says how far a takeover has come.
type State string

// The states.
const (
	StatePlanned  State = "planned"  // nothing was changed
	StatePrepared State = "prepared" // csccm install is next
	StateDone     State = "done"
	StateNone     State = "nothing to do"
)

// Run puts csccm's controller in the place of another provider's, or goes back.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	t := &Taker{Env: e, Options: o, API: cs.Client, Config: cs.Config}
	facts, err := t.Detect(ctx)
	switch {
	case err != nil:
	case o.Undo:
		t.Plan = PlanUndo(facts)
	default:
		err = t.MakePlan(ctx, facts)
	}
	if err != nil {
		return e.Cluster.Explain(err)
	}
	p := t.Plan
	p.State = StatePlanned
	op := engine.Operation{
		Name: "takeover", What: "carry the plan out", Plan: p, Show: func(w io.Writer) error { return p.WriteText(w, e.StyleOf(w)) },
		Check: t.Consent, Done: p.conclude, Question: prompt.Question{
			Message: "Carry this out", Help: "What changes is kept on the Services first. Run again, the command continues where it stopped.",
		},
	}
	end := func(state State, next string) engine.Step {
		return engine.Step{Name: "result", ReadOnly: true, Do: func(context.Context, engine.Note) error {
			p.State, p.Next = state, next
			return nil
		}}
	}
	switch {
	case !p.needed() && len(p.Problems) == 0 && (!o.Undo || !e.Yes):
		p.State, op.Check = StateNone, nil
		if !o.Undo {
			e.Progress.Info("There is no other controller: nothing to take over")
		}
	case o.Undo:
		op.Name, op.Steps = "takeover-undo", append(t.Back(), end(StateDone, ""))
	case p.Own.Ready == 0:
		op.Steps = append(t.Before(), end(StatePrepared, e.StyleOf(e.Out).Commands(p.installLine())))
	default:
		op.Steps = slices.Concat(t.Before(), t.After(), []engine.Step{end(StateDone, "")})
	}
	return e.Run(ctx, op)
}

// installLine is what comes between the two halves.
func (p *Plan) installLine() string {
	line := []string{"csccm install --skip-taint"}
	if p.Order == OursFirst {
		line = append(line, "--skip-check CCM-002,CCM-003")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		line = append(line, "--set "+name+"="+p.Values[name])
	}
	return strings.Join(line, " ")
}

// conclude says how it ended and what is next.
func (p *Plan) conclude(w io.Writer) error {
	text := ""
	switch {
	case p.State == StatePrepared:
		text = "Prepared. Next:\n  " + p.Next + "\n  csccm takeover\n"
	case p.State == StateDone && p.Undo:
		text = "The old controller works again. csccm's release is still there, with no Pods; remove it:  csccm uninstall --orphan-load-balancers\n"
	case p.State == StateDone:
		text = "Taken over. Check it:  csccm doctor\n" + p.Afterwards()
	}
	_, err := io.WriteString(w, text)
	return err
}

func line(b *strings.Builder, style report.Style, y report.Symbol, text string) {
	b.WriteString(style.Indented(style.Symbol(y)+" ", style.SymbolWidth()+1, text))
}

// WriteText prints the plan for a person.
func (p *Plan) WriteText(out io.Writer, style report.Style) error {
	var b strings.Builder
	other := "Other controller"
	if p.Undo {
		other = "Starts then"
		b.WriteString("Back to before the takeover\n")
		for i := range p.Own.Workloads {
			fmt.Fprintf(&b, "Ends first: %s\n", &p.Own.Workloads[i])
		}
	}
	for i := range p.Predecessors {
		old := &p.Predecessors[i]
		fmt.Fprintf(&b, "%s: %s (%s, image %s), %d wanted\n", other, old, old.Family, old.Image, old.Wanted)
	}
	switch p.Order {
	case OursFirst:
		fmt.Fprintf(&b, "Order: csccm's controller starts before the old one ends: %s\n", p.Why)
	case OldFirst:
		fmt.Fprintf(&b, "Order: the old controller ends before csccm's starts: %s\n", p.Why)
	default: // the caller prints that there is nothing to do, or the problem
	}
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		fmt.Fprintf(&b, "Chart value that keeps the nodes' form: %s=%s\n", name, p.Values[name])
	}
	for _, problem := range p.Problems {
		line(&b, style, report.SymbolFailed, problem.Text)
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
		if texts, _, pinnable := s.needs(); len(texts) > 0 && (!s.Pinned || !pinnable) {
			changes += ", need consent"
		}
		t.Add(s.Service, s.Address, fmt.Sprint(len(s.Rules)), changes)
		for j := range s.Differences {
			y, text := s.Differences[j].line(s.Pinned)
			line(&differences, style, y, s.Service+": "+text)
		}
		for _, c := range s.Changes {
			all.WriteString(style.Indented("  "+style.Paint(report.SignPaint(c.sign), c.sign)+" ", 4, c.Text))
		}
	}
	if len(t.Rows) > 0 {
		_ = t.Write(&b, style)
	}
	b.WriteString(differences.String() + all.String())
	if n := len(p.Rules.Steps); n > 0 {
		fmt.Fprintf(&b, "Rules: %s, in place\n", rules.Sum(p.Rules.Steps, false))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// line is a difference for a person. With a pin it does not come to be.
func (d *Difference) line(pinned bool) (y report.Symbol, text string) {
	switch {
	case !d.Consent && d.Kind != KindWarning:
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
	return text + "Addresses stay when their Service is deleted. Hand those that the old one acquired to csccm's:  csccm adopt\n"
}
