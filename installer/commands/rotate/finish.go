// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
)

// finish ends the keys that rotations have kept: those which the Secret held before and their user still has.
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
	all, holder, err := holderOf(ctx, r.admin, object, r.secret.Config.APIKey)
	if err != nil {
		return err
	}
	p := &Plan{
		SchemaVersion: 1, Namespace: object.Namespace, Secret: object.Name, Account: holder.Account, Finish: true,
		Ends: []string{}, KeepsOldKeys: []string{}, Steps: []string{},
	}
	r.plan, r.changed = p, r.changedAt(object)
	for _, u := range ofAccount(all, holder) {
		if r.secret.HasReplaced(u.APIKey) {
			p.ends, p.Ends = append(p.ends, u), append(p.Ends, u.Username)
		}
	}
	if err := r.findOthers(ctx); err != nil {
		return err
	}
	for _, what := range p.NotLookedAt {
		if r.Yes { // otherwise the plan is shown
			r.Progress.Warn("not looked at: %s", what)
		}
	}
	var steps []engine.Step
	if len(p.ends) > 0 {
		p.KeepsOldKeys = p.breaks(r.changed, r.RestartOthers)
		p.restarts(&r.Options, r.changed)
		for _, name := range p.Ends {
			p.step("make the old keys of user %q worthless", name)
		}
		p.step("prove the keys in the Secret")
		if r.RestartOthers {
			steps = append(steps, engine.Step{Name: "other users of the keys", Do: r.restartAll})
		}
		steps = append(steps, engine.Step{Name: "old keys", Do: r.finishKeys})
	}
	return r.Run(ctx, engine.Operation{
		Name: Command, What: fmt.Sprintf("end old keys of account %q", p.Account), Plan: p, Show: p.show(r.RestartOthers), Steps: steps,
		Check:  func(context.Context) error { return r.mayBreak(p.KeepsOldKeys) },
		Result: func() any { return r.outcome() }, Done: r.done,
	})
}

// mayBreak refuses to break something, unless forced.
func (r *run) mayBreak(breaks []string) error {
	if len(breaks) == 0 || r.Force {
		return nil
	}
	return &report.Error{
		What: "the old keys are still in use: " + strings.Join(breaks, "; "), Code: report.ExitCheckFailed,
		Fix: "restart what read the Secret before (--restart-others does so where it can), write the new keys into the copies; " +
			"or end the old keys all the same with --force",
	}
}

// finishKeys ends the keys, and proves those in the Secret.
func (r *run) finishKeys(ctx context.Context, note engine.Note) error {
	now, err := r.look(ctx)
	if err == nil {
		err = r.mayBreak(now.breaks(r.changed, false))
	}
	if err != nil {
		return err
	}
	if err := r.endKeys(ctx, note, func(*corev1.Secret) {}); err != nil {
		return err
	}
	api, err := cloudapi.NewClient(r.local)
	if err == nil {
		err = credentials.CheckKeys(ctx, r.local.APIURL, api)
	}
	if err != nil && ctx.Err() == nil {
		return report.Remedied(fmt.Errorf("the old keys are worthless; %w", err), "see csccm doctor")
	}
	return err
}

// retire ends the old keys. Where something may still work with them, they stay.
func (r *run) retire(ctx context.Context, note engine.Note) error {
	found, err := r.look(ctx)
	if err != nil {
		return err
	}
	now := &Plan{Others: *found}
	if r.kept = now.keeps(&Options{KeepOld: r.KeepOld}, r.changed); len(r.kept) > 0 {
		return r.keep(ctx)
	}
	return r.endKeys(ctx, note, func(s *corev1.Secret) { delete(s.Annotations, annotationFrom) })
}

// endKeys makes the old keys worthless: CloudStack replaces them by a pair that nobody reads. The next rotation takes their user.
func (r *run) endKeys(ctx context.Context, note engine.Note, edit func(*corev1.Secret)) error {
	return engine.Shielded(ctx, func(ctx context.Context) error {
		for _, u := range r.plan.ends {
			r.Progress.Step("Old keys of user %q", u.Username)
			keys, err := r.admin.RegisterUserKeys(ctx, u.ID)
			if err != nil {
				return fmt.Errorf("replacing the old keys of user %q: %w", u.Username, err)
			}
			r.hide = append(r.hide, keys.APIKey, keys.SecretKey)
			r.ended = append(r.ended, u.Username)
			note("the old keys of user %q are worthless", u.Username)
			r.Progress.Done("worthless")
			if _, err := r.change(ctx, func(s *corev1.Secret) {
				edit(s)
				s.Annotations[annotationSpare] = u.Username
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// keep ends the rotation with old keys that still work. The next rotation does not take their user: somebody may work
// with them.
func (r *run) keep(ctx context.Context) error {
	return engine.Shielded(ctx, func(ctx context.Context) error {
		_, err := r.change(ctx, func(s *corev1.Secret) {
			delete(s.Annotations, annotationFrom)
			delete(s.Annotations, annotationSpare)
		})
		return err
	})
}
