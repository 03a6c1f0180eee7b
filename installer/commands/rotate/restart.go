// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// apart is how far apart the change of the Secret and the creation of a Pod must be, whose times have whole seconds.
const apart = 2 * time.Second

// others restarts what does not take the new keys over by itself. If something does not start, the old keys stay.
func (r *run) others(ctx context.Context, note engine.Note) error {
	if !r.RestartOthers {
		return nil
	}
	err := r.restartAll(ctx, note)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if kerr := r.keep(ctx); kerr != nil {
		err = fmt.Errorf("%w; and %w", err, kerr)
	}
	return report.Remedied(fmt.Errorf("%w; the keys of user %q still work", err, r.plan.From),
		"remove the cause, then end the old keys: csccm rotate-keys --finish --restart-others")
}

// restartAll restarts what csccm can restart and has Pods of before the Secret was changed.
func (r *run) restartAll(ctx context.Context, note engine.Note) error {
	found, err := r.look(ctx)
	if err != nil {
		return err
	}
	for i := range found.Workloads {
		u := &found.Workloads[i]
		if u.Needs != restart || u.old(r.changed) == 0 {
			continue
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
		if err := r.restart(ctx, u); err != nil {
			return err
		}
		note("restarted %s", u)
		r.restarted = append(r.restarted, u.String())
	}
	return nil
}

// pause waits until a Pod that is created cannot have the time of the change.
func (r *run) pause(ctx context.Context) error {
	wait := r.changed.Add(apart).Sub(r.Clock.Now())
	if wait <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.Clock.After(min(wait, apart)): // not longer, if the two clocks differ
		return nil
	}
}

// restart replaces the Pods of a workload, and waits until those of before are gone.
func (r *run) restart(ctx context.Context, u *Use) error {
	w := &rollout.Waiter{
		Cluster: r.Cluster, Clock: r.Clock, Progress: r.Progress, Limit: r.RolloutTimeout, Scrub: r.scrub,
		Of: &rollout.Target{Kind: u.Kind, Namespace: u.Namespace, Name: u.Name},
	}
	o, _, err := w.Read(ctx)
	if err == nil {
		err = w.Restart(ctx, o)
	}
	if err == nil {
		err = w.Wait(ctx)
	}
	if err != nil {
		return err
	}
	left := 0
	gone, err := engine.Poll(ctx, r.Clock, proofPoll, cmp.Or(r.RolloutTimeout, rollout.DefaultTimeout), func() (bool, error) {
		var err error
		pods := cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Pods(r.secret.Namespace).List).Items
		left = 0
		for _, now := range secretusers.Of(pods, r.secret.Namespace, r.secret.Name) {
			if now.Kind == u.Kind && now.Name == u.Name {
				left = (&Use{User: now}).old(r.changed)
			}
		}
		return left == 0, r.Cluster.Explain(err)
	})
	if err == nil && !gone {
		err = fmt.Errorf("%s: after its restart %s of before the change of the Secret still run", u, count(left))
	}
	return err
}
