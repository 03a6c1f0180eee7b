// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/rollout"
)

// DefaultReloadTimeout is how long Pods may take to take new keys over by
// themselves: the kubelet brings a changed Secret within some 90 seconds, and
// the controller looks every 10.
const DefaultReloadTimeout = 3 * time.Minute

const (
	proofPoll = time.Second
	// logLines is how much of a log is looked at, from its end.
	logLines = 2000
	// contactTimeout is how long a restarted controller may take until it has spoken to CloudStack:
	// it must get the lease of the one before first.
	contactTimeout = 2 * time.Minute
)

// What the controller says in its log.
const (
	saysReloaded = "Changed credentials or CA certificates are in use"
	saysRefused  = "Changed credentials or CA certificates do not work"
	saysWorks    = "CloudStack can be used"
	saysFails    = "CloudStack cannot be used"
)

// watcher waits for the controller's own word that it works with the new keys.
type watcher struct {
	*run
	waiter *rollout.Waiter
	seen   map[string]said // by Pod, before the Secret was written
}

type said struct{ reloaded, refused int }

// ready refuses a rotation whose keys nobody could prove, before anything is changed.
func (w *watcher) ready(ctx context.Context) error {
	_, err := w.pods(ctx)
	switch {
	case errors.Is(err, rollout.ErrNoWorkload):
		return report.Usage(fmt.Sprintf("release %s has no controller in namespace %s, which would have to prove new keys: nothing was changed", w.Release, w.Cluster.Namespace),
			"name the release with --release and --namespace, or run csccm install")
	case errors.Is(err, errNoPod):
		return &report.Error{
			What: err.Error() + ": nothing was changed", Code: report.ExitCheckFailed,
			Fix: "csccm doctor says why no Pod runs; where the keys are the reason, csccm install --overwrite-secret gives it others",
		}
	}
	return err
}

var errNoPod = errors.New("no Pod of the controller runs, so nobody can prove the keys")

// before notes what the Pods have said so far; there must be some.
func (w *watcher) before(ctx context.Context) error {
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		log, err := w.PodLogs(ctx, &pods[i], logLines)
		if err != nil {
			return err
		}
		w.seen[pods[i].Name] = saidIn(log)
	}
	return nil
}

func saidIn(log string) said {
	return said{strings.Count(log, saysReloaded), strings.Count(log, saysRefused)}
}

// pods are the controller's that run; none is an error, as nobody could prove anything.
func (w *watcher) pods(ctx context.Context) ([]corev1.Pod, error) {
	_, all, err := w.waiter.Read(ctx)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for i := range all {
		if all[i].DeletionTimestamp == nil && all[i].Status.Phase == corev1.PodRunning {
			out = append(out, all[i])
		}
	}
	if len(out) == 0 {
		return nil, errNoPod
	}
	return out, nil
}

// prove is nil once the controller works with the new keys.
func (w *watcher) prove(ctx context.Context) error {
	if !w.Restart && !w.plan.switched {
		done, err := w.reloaded(ctx)
		if done || err != nil {
			return err
		}
		w.Progress.Info("the controller does not take changed keys over by itself; restarting it, one Pod at a time")
	}
	return w.restart(ctx)
}

// reloaded waits until every Pod has said that it took the keys over. done is
// false when none says anything in time.
func (w *watcher) reloaded(ctx context.Context) (done bool, err error) {
	w.Progress.Step("Waiting for the controller to take the keys over")
	var pods []corev1.Pod
	ready := 0
	done, err = engine.Poll(ctx, w.Clock, proofPoll, cmp.Or(w.ReloadTimeout, DefaultReloadTimeout), func() (bool, error) {
		var err error
		if pods, err = w.pods(ctx); err != nil {
			return false, err
		}
		ready = 0
		for i := range pods {
			log, err := w.PodLogs(ctx, &pods[i], logLines)
			if err != nil {
				continue // a Pod on its way; asked again
			}
			now, before := saidIn(log), w.seen[pods[i].Name]
			switch {
			case now.reloaded > before.reloaded:
				ready++
			case now.refused > before.refused:
				return false, fmt.Errorf("pod %s does not take the new keys: %s", pods[i].Name, w.scrub(lastLine(log, saysRefused)))
			}
		}
		return ready == len(pods), nil
	})
	switch {
	case err != nil:
		return false, err
	case done:
		w.Progress.Done("%s", count(ready))
		w.result.Proof, w.result.Pods = "reload", ready
	default:
		w.Progress.Done("%d of %s said so", ready, count(len(pods)))
	}
	return done, nil
}

func lastLine(log, part string) string {
	out := part
	for line := range strings.Lines(log) {
		if strings.Contains(line, part) {
			out = strings.TrimSpace(line)
		}
	}
	return out
}

// restart replaces the Pods, and waits until the
// one that leads has spoken to CloudStack.
func (w *watcher) restart(ctx context.Context) error {
	o, old, err := w.waiter.Read(ctx)
	if err != nil {
		return err
	}
	before := map[string]bool{}
	for i := range old {
		before[old[i].Name] = true
	}
	if err := w.waiter.Restart(ctx, o); err != nil {
		return err
	}
	if err := w.waiter.Wait(ctx); err != nil {
		return err
	}
	return w.contact(ctx, before)
}

// contact waits for the word of a Pod that was not there before.
func (w *watcher) contact(ctx context.Context, before map[string]bool) error {
	w.Progress.Step("Waiting for the controller to speak to CloudStack")
	complaint := "it has said nothing about CloudStack"
	works, err := engine.Poll(ctx, w.Clock, proofPoll, contactTimeout, func() (bool, error) {
		pods, err := w.pods(ctx)
		if err != nil {
			return false, err
		}
		for i := range pods {
			if before[pods[i].Name] {
				continue
			}
			log, err := w.PodLogs(ctx, &pods[i], logLines)
			if err != nil {
				continue
			}
			works, fails := strings.LastIndex(log, saysWorks), strings.LastIndex(log, saysFails)
			if works > fails {
				w.Progress.Done("it works")
				w.result.Proof, w.result.Pods = "restart", len(pods)
				return true, nil
			}
			if fails >= 0 {
				complaint = w.scrub(lastLine(log, saysFails))
			}
		}
		return false, nil
	})
	if err == nil && !works {
		err = fmt.Errorf("the controller was restarted and does not work within %s: %s", contactTimeout, complaint)
	}
	return err
}
