// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
)

// FinishPlan is what ending old keys would do. It holds no secret.
type FinishPlan struct {
	SchemaVersion int      `json:"schemaVersion"`
	Namespace     string   `json:"namespace"`
	Secret        string   `json:"secret"`
	Account       string   `json:"account"`
	Ends          []string `json:"ends"` // users whose old keys become worthless
	Others
	Breaks []string `json:"breaks"` // what still works with them
	Steps  []string `json:"steps"`

	users []cloudapi.User
}

// FinishResult is what ending old keys has done.
type FinishResult struct {
	SchemaVersion int      `json:"schemaVersion"`
	Account       string   `json:"account"`
	Secret        string   `json:"secret"`
	Ended         []string `json:"ended"`
	Restarted     []string `json:"restarted"`
}

// finisher ends the keys that rotations have kept.
type finisher struct {
	*run
	plan  *FinishPlan
	ended []string
}

func (r *run) finish(ctx context.Context) error {
	object, err := r.read(ctx)
	if err != nil {
		return err
	}
	if object.Annotations[annotationFrom] != "" || object.Annotations[annotationTo] != "" {
		return &report.Error{
			What: "a rotation has not ended: nothing was changed", Code: report.ExitCheckFailed,
			Fix: "run csccm rotate-keys again, which goes on with it; with --keep-old it keeps the old keys",
		}
	}
	f := &finisher{run: r, plan: &FinishPlan{SchemaVersion: 1, Namespace: object.Namespace, Secret: object.Name}}
	if err := f.find(ctx, object); err != nil {
		return err
	}
	p := f.plan
	var steps []engine.Step
	if len(p.users) > 0 {
		if r.RestartOthers {
			steps = append(steps, engine.Step{Name: "other users of the keys", Do: func(ctx context.Context, note engine.Note) error {
				return r.restartAll(ctx, note, f.keys()...)
			}})
		}
		steps = append(steps, engine.Step{Name: "old keys", Do: f.end})
	}
	return r.Run(ctx, engine.Operation{
		Name: Command, What: fmt.Sprintf("end old keys of account %q", p.Account), Plan: p, Show: f.show, Steps: steps,
		Check:  func(context.Context) error { return f.gate(p.Breaks) },
		Result: func() any { return f.outcome() }, Done: f.done,
	})
}

// find fills the plan. Keys that still work are those which the Secret held before and their user still has.
func (f *finisher) find(ctx context.Context, s *corev1.Secret) error {
	all, holder, err := holderOf(ctx, f.admin, s, f.secret.Config.APIKey)
	if err != nil {
		return err
	}
	p := f.plan
	p.Account, p.Ends, p.Breaks = holder.Account, []string{}, []string{}
	for _, u := range ofAccount(all, holder) {
		if f.secret.HasReplaced(u.APIKey) {
			p.users, p.Ends = append(p.users, u), append(p.Ends, u.Username)
			f.hide = append(f.hide, u.APIKey)
		}
	}
	f.changed = f.changedAt(s)
	found, err := f.look(ctx, f.keys()...)
	if err != nil {
		return err
	}
	p.Others = *found
	for _, what := range p.NotLookedAt {
		if f.Yes { // otherwise the plan is shown
			f.Progress.Warn("not looked at: %s", what)
		}
	}
	if len(p.users) == 0 {
		p.Steps = []string{}
		return nil
	}
	p.Breaks = p.breaks(f.changed, f.RestartOthers)
	for i := range p.Workloads {
		if u := &p.Workloads[i]; f.RestartOthers && u.Needs == restart && u.old(f.changed) > 0 {
			p.Steps = append(p.Steps, fmt.Sprintf("restart %s, and look for refused calls", u))
		}
	}
	for _, name := range p.Ends {
		p.Steps = append(p.Steps, fmt.Sprintf("make the old keys of user %q worthless", name))
	}
	p.Steps = append(p.Steps, "prove the keys in the Secret, and look for refused calls")
	return nil
}

// keys returns the API keys that end.
func (f *finisher) keys() []string {
	var out []string
	for _, u := range f.plan.users {
		out = append(out, u.APIKey)
	}
	return out
}

// gate refuses to break something, unless forced.
func (f *finisher) gate(breaks []string) error {
	if len(breaks) == 0 || f.Force {
		return nil
	}
	return &report.Error{
		What: "the old keys are still in use: " + strings.Join(breaks, "; "), Code: report.ExitCheckFailed,
		Fix: "restart what read the Secret before (--restart-others does so where it can), write the new keys into the copies; " +
			"or end the old keys all the same with --force",
	}
}

// end ends the keys, and proves that the others work.
func (f *finisher) end(ctx context.Context, note engine.Note) error {
	now, err := f.look(ctx, f.keys()...)
	if err == nil {
		err = f.gate(now.breaks(f.changed, false))
	}
	if err != nil {
		return err
	}
	var uses []Use // of the Secret itself: what has a copy is told already
	for i := range now.Workloads {
		if u := now.Workloads[i]; u.Needs != update {
			uses = append(uses, u)
		}
	}
	before, err := f.before(ctx, uses)
	if err != nil {
		return err
	}
	err = engine.Shielded(ctx, func(ctx context.Context) error {
		for _, u := range f.plan.users {
			if err := f.run.end(ctx, note, u); err != nil {
				return err
			}
			f.ended = append(f.ended, u.Username)
			if _, err := f.change(ctx, func(s *corev1.Secret) { s.Annotations[annotationSpare] = u.Username }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	api, err := cloudapi.NewClient(f.local)
	if err == nil {
		err = credentials.CheckKeys(ctx, f.local.APIURL, api)
	}
	if err == nil {
		err = f.observe(ctx, uses, before)
	}
	if err != nil && ctx.Err() == nil {
		return report.Remedied(fmt.Errorf("the old keys are worthless; %w", err), "restart what cannot call CloudStack; see csccm doctor for the controller")
	}
	return err
}

func (f *finisher) outcome() FinishResult {
	p := f.plan
	return FinishResult{
		SchemaVersion: 1, Account: p.Account, Secret: p.Namespace + "/" + p.Secret,
		Ended: append([]string{}, f.ended...), Restarted: append([]string{}, f.restarted...),
	}
}

func (f *finisher) show(w io.Writer) error {
	var b strings.Builder
	p := f.plan
	fmt.Fprintf(&b, "Old keys of account %q, which Secret %s/%s held before:\n", p.Account, p.Namespace, p.Secret)
	reasons(&b, p.Steps)
	p.print(&b, f.RestartOthers)
	if len(p.Breaks) > 0 {
		b.WriteString("What stops working:\n")
		reasons(&b, p.Breaks)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *finisher) done(w io.Writer) error {
	text := "no keys that the Secret held before work any more: nothing to do\n"
	if len(f.ended) > 0 {
		text = fmt.Sprintf("the old keys of %s are worthless\n", strings.Join(f.ended, ", "))
	}
	_, err := io.WriteString(w, text)
	return err
}
