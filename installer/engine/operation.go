// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"io"

	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
)

// Operation is a change that a command is about to make: a plan that can be shown, and the steps that carry it out.
type Operation struct {
	Name string // name of the command in the journal
	What string // what the steps do, such as "taint 3 nodes"
	Back string // how to revert a run that was stopped; may be ""

	// Question asks for consent to the steps. If its message is empty, it asks What.
	Question prompt.Question
	// Plan is shown before the steps, and is the output for -o json and yaml.
	Plan *Plan
	// Check returns an error if the plan cannot be carried out. It also runs in dry runs; may be nil.
	Check func(ctx context.Context) error
	// Looks is true if the steps change nothing, so that no consent is needed.
	Looks bool
	// Steps carry the plan out and complete its details with the results. No steps means that there is nothing to do.
	Steps []Step
	// Done returns the result of the steps as text; may be nil.
	Done func() string
	// Then plans the operation that follows the steps and needs their results; may be nil. If there are no steps, the
	// plan of that operation is shown alone.
	Then func(ctx context.Context) (*Operation, error)
}

// Run shows the plan, checks it, asks for consent and runs the steps. A dry run ends after the check. Structured output
// is only the last plan, also if the run fails.
func (e *Env) Run(ctx context.Context, op Operation) error {
	e.session = &session{env: e, name: op.Name}

	last := &op
	err := e.run(ctx, last)
	for err == nil && last.Then != nil {
		var next *Operation
		if next, err = last.Then(ctx); err == nil {
			last = next
			err = e.run(ctx, last)
		}
	}

	e.session.close(err)
	last.Plan.Done = e.session.done
	if e.Structured() {
		if werr := report.Encode(e.Out, e.Output, last.Plan); err == nil {
			err = werr
		}
	}
	return err
}

func (e *Env) run(ctx context.Context, op *Operation) error {
	if len(op.Steps) == 0 && op.Then != nil {
		return nil
	}

	where := ""
	if len(op.Steps) > 0 {
		where = report.Capital(e.Where()) + "\n"
	}

	if err := e.Print(where + op.Plan.Text(e.Style)); err != nil {
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
		if err := e.agreed(ctx, op); err != nil {
			return err
		}
	}

	e.session.back = op.Back
	for _, next := range op.Steps {
		if err := e.session.step(ctx, &next); err != nil {
			return err
		}
	}

	if op.Done == nil {
		return nil
	}

	return e.Print(op.Done())
}

// Where returns the cluster and the namespace, or the CloudStack, that a command works on, as text.
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

// Print writes text output; with structured output it does nothing.
func (e *Env) Print(text string) error {
	if e.Structured() {
		return nil
	}
	_, err := io.WriteString(e.Out, e.Style.Commands(text))
	return err
}

// agreed asks for consent before the first change. Without a terminal, or with structured output, it cannot ask and
// returns an error unless --yes is given.
func (e *Env) agreed(ctx context.Context, op *Operation) error {
	if e.Yes {
		return nil
	}

	if e.Structured() || !e.Interactive {
		why := "there is no terminal"
		if e.Interactive {
			why = "-o " + e.Output + " does not ask"
		}
		return report.Usage(
			"add --yes to confirm, or --dry-run to only see the plan",
			"nothing has been changed: confirmation required to %s in %s, and %s", op.What, e.Where(), why,
		)
	}

	q := op.Question
	q.Message = cmp.Or(q.Message, report.Capital(op.What)) + " in " + e.Where()
	q.Flag, q.YesNo = "--yes", true
	answer, err := e.Prompt.Ask(ctx, q)
	if err == nil && answer != "yes" {
		err = report.Declined("nothing was changed")
	}

	return err
}
