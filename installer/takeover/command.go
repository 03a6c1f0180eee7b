// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/prompt"
)

// Run replaces the controller of another provider by csccm's, or goes back with o.Undo.
func Run(ctx context.Context, e *engine.Env, cs *access.Cloud, o Options) error {
	t := &Taker{Env: e, Options: o, Cloud: cs}
	facts, err := t.Detect(ctx)
	if err == nil && !o.Undo {
		err = t.MakePlan(ctx, facts)
	}

	if err != nil {
		return err
	}

	part, nothing := "Takeover", "nothing to take over: there is no other controller"
	if o.Undo {
		t.Plan, part, nothing = PlanUndo(facts), "Undo", "nothing to undo: the cluster has no record of a takeover"
	}

	p, shown := t.Plan, e.NewPlan()
	op := engine.Operation{
		Name: "takeover",
		What: "carry the plan out",
		Plan: shown,
		Question: prompt.Question{
			Message: "Carry this out",
			Help: "The current state is recorded on the Services first. If the command is interrupted, run it " +
				"again: it continues where it stopped.",
		},
	}

	if !p.needed() && p.Problem == nil {
		shown.Add(part, nothing, nil)
		return e.Run(ctx, op)
	}

	op.Check, op.Back = t.Consent, WayBack
	p.AddTo(shown)

	switch {
	case o.Undo:
		op.Name, op.Back, op.Steps = "takeover-undo", "", t.Back()
		op.Done = func() string {
			return "The old controller works again. csccm's release is still there, with no Pods; remove it:  csccm " +
				"uninstall --orphan-load-balancers\n"
		}

	case p.Own.Ready == 0: // csccm's controller is not installed yet
		shown.Add("Next", p.installLine(), nil)
		op.Steps, op.Done = t.Before(), func() string {
			text := "Prepared. Next:\n  " + p.installLine() + "\n  csccm takeover\n"
			if p.Order == OldFirst {
				text += "Until then no controller works. Back to the old one:  csccm takeover --undo\n"
			}
			return text
		}

	default:
		op.Check = func(ctx context.Context) error {
			if err := t.Consent(ctx); err != nil {
				return err
			}
			return t.AskAddresses(ctx)
		}
		op.Steps, op.Done = slices.Concat(t.Before(), t.After()), func() string {
			return "Taken over. Check it:  csccm doctor\n" + t.Afterwards()
		}
	}

	return e.Run(ctx, op)
}

// installLine returns the command to run between Before and After.
func (p *Plan) installLine() string {
	line := "csccm install --skip-taint"
	if p.Order == OursFirst {
		line += " --skip-check CCM-002,CCM-003"
	}
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		line += " --set " + name + "=" + p.Values[name]
	}

	return line
}

// Afterwards returns text about what is left of the old controllers, how to go back to them and how to delete them.
func (t *Taker) Afterwards() string {
	text := "The old controller is still there, with no Pods. Back to it:  csccm takeover --undo\n"
	for _, predecessor := range t.Plan.Predecessors {
		text += "When it is no longer needed:  " + predecessor.Deletion() + "\n"
	}

	stay := len(t.Plan.Addresses)
	if t.Adopt != "no" {
		stay -= len(t.Plan.adopting())
	}

	if stay > 0 {
		text += "Addresses that stay allocated when their Services are deleted: " + strconv.Itoa(stay) +
			". To have them released:  csccm adopt NAMESPACE/SERVICE\n"
	}

	return text
}
