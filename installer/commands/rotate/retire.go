// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/engine"
)

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
