// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
)

// Operation is a change that a command is about to make: a plan that can be shown, and the steps that carry it out.
type Operation struct {
	Name string // of the command, in the journal
	What string // what the steps do, such as "taint 3 nodes"
	Back string // how to go back, for a run that was stopped; may be ""

	// Question asks for the consent to the steps; without a message it is What.
	Question prompt.Question
	// Plan is what -o json and yaml write. Show is the plan for a person; a *Plan needs none.
	Plan any
	Show func(report.Style) string
	// Check returns why the plan cannot be carried out. It runs in dry runs too; may be nil.
	Check func(ctx context.Context) error
	// Looks: the steps only look, which nobody needs to agree to.
	Looks bool
	// Steps carry the plan out, and complete it for programs; none means that there is nothing to do.
	Steps []Step
	// Done is the result of the steps for a person; may be nil.
	Done func() string
}

// Run shows the plan, checks it, asks, and carries the steps out. A dry run ends after the check. Programs get the plan
// alone, however the run ends.
func (e *Env) Run(ctx context.Context, op Operation) error {
	err := e.run(ctx, &op)
	if e.Structured() {
		if werr := report.Encode(e.Out, e.Output, op.Plan); err == nil {
			err = werr
		}
	}
	return err
}

func (e *Env) run(ctx context.Context, op *Operation) error {
	p, ok := op.Plan.(*Plan)
	if ok {
		op.Show = p.Text
	}

	where := ""
	if len(op.Steps) > 0 {
		where = upperFirst(e.Where()) + "\n"
	}

	if err := e.Print(where + op.Show(e.StyleOf(e.Out))); err != nil {
		return err
	}

	if op.Check != nil {
		if err := op.Check(ctx); err != nil {
			return err
		}
	}

	if e.DryRun || len(op.Steps) == 0 {
		return nil
	}

	if !op.Looks {
		if err := e.Agreed(ctx, op.What, op.Question); err != nil {
			return err
		}
	}

	s := e.Session(op.Name, op.Back)
	err := s.Run(ctx, op.Steps...)
	s.Close(err)
	if ok {
		p.Done = s.done
	}

	if err != nil || op.Done == nil {
		return err
	}

	return e.Print(op.Done())
}

// Where names the cluster and the namespace, or the CloudStack, that a command works on.
func (e *Env) Where() string {
	c := e.Cluster
	if c == nil {
		return cmp.Or(e.Place, "CloudStack")
	}
	name := "cluster " + cmp.Or(c.Context, c.Server)
	if c.Server != "" && c.Context != "" {
		name += " (" + c.Server + ")"
	}
	return name + ", namespace " + c.Namespace
}

// Print writes a result for a person; programs get nothing of it.
func (e *Env) Print(text string) error {
	if e.Structured() {
		return nil
	}
	_, err := io.WriteString(e.Out, e.StyleOf(e.Out).Commands(text))
	return err
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// Agreed asks before the first change. what says what the command would do, such as "taint 3 nodes"; it is the question
// where q has none. Where nobody can be asked, without a terminal or with results for programs, --yes is missing.
func (e *Env) Agreed(ctx context.Context, what string, q prompt.Question) error {
	if e.Yes {
		return nil
	}

	if e.Structured() || !e.Interactive {
		why := "there is no terminal to ask on"
		if e.Interactive {
			why = "-o " + e.Output + " does not ask"
		}
		return report.Usage(
			"add --yes to do it, or --dry-run to only look",
			"nothing has been changed: --yes, which would %s in %s, is not given, and %s", what, e.Where(), why,
		)
	}

	if q.Message == "" {
		q.Message = upperFirst(what)
	}

	q.Message, q.Flag, q.YesNo = q.Message+" in "+e.Where(), "--yes", true
	answer, err := e.Prompt.Ask(ctx, q)
	if err == nil && answer != "yes" {
		err = report.Declined("nothing was changed")
	}

	return err
}
