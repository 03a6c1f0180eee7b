// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/rollout"
	"github.com/csccm/csccm/installer/kube/secretusers"
)

// DefaultObserve is how long Pods must work with the new keys without a call that CloudStack refuses. CloudStack has no
// event for a refused API key, so that their logs and their readiness are all there is to see.
const DefaultObserve = 30 * time.Second

const (
	observePoll = 2 * time.Second
	// apart is how far apart the change of the Secret and the creation of a Pod must be, whose times have whole seconds.
	apart = 2 * time.Second
)

// others restarts what does not take the new keys over by itself, and proves that it works with them. If something does
// not, the old keys stay.
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

// restartAll restarts what csccm can restart and has Pods of before the Secret was changed, and observes it.
func (r *run) restartAll(ctx context.Context, note engine.Note) error {
	found, err := r.look(ctx)
	if err != nil {
		return err
	}
	var restarted []Use
	for i := range found.Workloads {
		u := &found.Workloads[i]
		if u.Needs != restart || u.old(r.changed) == 0 {
			continue
		}
		if len(restarted) == 0 {
			if err := r.pause(ctx); err != nil {
				return err
			}
		}
		if err := r.restart(ctx, u); err != nil {
			return err
		}
		note("restarted %s", u)
		restarted = append(restarted, *u)
		r.restarted = append(r.restarted, u.String())
	}
	return r.observe(ctx, restarted, nil)
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
		now, err := r.podsOf(ctx, []Use{*u})
		if err != nil || len(now) == 0 {
			return err == nil, err
		}
		left = now[0].old(r.changed)
		return left == 0, nil
	})
	if err == nil && !gone {
		err = fmt.Errorf("%s: after its restart %s of before the change of the Secret still run", u, count(left))
	}
	return err
}

// podsOf returns workloads of the Secret with their Pods of now.
func (r *run) podsOf(ctx context.Context, uses []Use) ([]Use, error) {
	var err error
	pods := cluster.List(ctx, &err, r.Cluster.Kube.CoreV1().Pods(r.secret.Namespace).List).Items
	if err != nil {
		return nil, r.Cluster.Explain(err)
	}
	users := secretusers.Of(pods, r.secret.Namespace, r.secret.Name)
	var out []Use
	for _, u := range users {
		if slices.ContainsFunc(uses, func(o Use) bool { return o.Kind == u.Kind && o.Name == u.Name }) {
			out = append(out, Use{User: u, PodCount: len(u.Pods)})
		}
	}
	return out, nil
}

// observe is nil if in a period no Pod of the workloads logs a call that CloudStack refuses, and all are ready at its end.
// before is what they were before, if that does not count.
func (r *run) observe(ctx context.Context, uses []Use, before map[string]int) error {
	if len(uses) == 0 {
		return nil
	}
	period := cmp.Or(r.Observe, DefaultObserve)
	r.Progress.Step("Looking for refused calls for %s", period)
	silent := map[string]bool{} // workloads whose log cannot be read
	var unready []string
	_, err := engine.Poll(ctx, r.Clock, observePoll, period, func() (bool, error) {
		now, err := r.podsOf(ctx, uses)
		if err != nil {
			return false, err
		}
		unready = unready[:0]
		for i := range now {
			u := &now[i]
			for _, p := range u.Pods {
				if !cluster.PodReady(p.Pod) && before[p.Name] == 0 {
					unready = append(unready, p.Name)
				}
				for name, log := range r.logs(ctx, p) {
					if log == nil {
						silent[u.String()] = true
					} else if n, line := refused(*log); n > before[name] {
						return false, fmt.Errorf("%s: Pod %s cannot call CloudStack: %s", u, p.Name, r.scrub(line))
					}
				}
			}
		}
		return false, nil
	})
	if err == nil && len(unready) > 0 {
		err = fmt.Errorf("not ready: Pods %s", strings.Join(unready, ", "))
	}
	if err != nil {
		return err
	}
	for u := range silent {
		r.Progress.Warn("the log of %s cannot be read: only its readiness is known", u)
	}
	r.Progress.Done("none")
	return nil
}

// logs returns the logs of a Pod's containers that read the Secret, by name; nil where one cannot be read.
func (r *run) logs(ctx context.Context, p secretusers.Pod) map[string]*string {
	out := map[string]*string{}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if len(p.Containers) > 0 && !slices.Contains(p.Containers, c.Name) {
			continue
		}
		one := p.DeepCopy() // PodLogs reads the first container
		one.Spec.Containers = []corev1.Container{*c}
		one.Status.ContainerStatuses = slices.DeleteFunc(one.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name != c.Name })
		name := p.Name + "/" + c.Name
		out[name] = nil
		if log, err := r.PodLogs(ctx, one, logLines); err == nil {
			out[name] = &log
		}
	}
	return out
}

// before returns the numbers of refused calls in the logs of workloads by container, and 1 by Pod that is not ready.
func (r *run) before(ctx context.Context, uses []Use) (map[string]int, error) {
	now, err := r.podsOf(ctx, uses)
	before := map[string]int{}
	for i := range now {
		for _, p := range now[i].Pods {
			if !cluster.PodReady(p.Pod) {
				before[p.Name] = 1
			}
			for name, log := range r.logs(ctx, p) {
				if log != nil {
					before[name], _ = refused(*log)
				}
			}
		}
	}
	return before, err
}
