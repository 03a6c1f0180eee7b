// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
)

const (
	// reloadTimeout is how long Pods may take to reload the keys: the kubelet updates a mounted Secret within about 90
	// seconds, and the controller checks the file every 10 seconds.
	reloadTimeout = 3 * time.Minute
	// contactTimeout is how long a restarted controller may take until it calls CloudStack: it must first acquire the
	// lease of its predecessor.
	contactTimeout = 2 * time.Minute
	proofPoll      = time.Second
	logLines       = 2000 // lines to read from the end of a log
)

// Log messages of the controller: about changed keys, and about the keys that it started with.
const (
	saysReloaded = "Changed credentials or CA certificates are in use"
	saysRefused  = "Changed credentials or CA certificates do not work"
	saysWorks    = "CloudStack can be used"
	saysFails    = "CloudStack cannot be used"
)

// pods returns the running Pods of the controller. It returns an error if there are none, because nothing could then
// test new keys.
func (r *run) pods(ctx context.Context) ([]corev1.Pod, error) {
	_, all, err := rollout.Read(ctx, r.Env)
	var out []corev1.Pod
	for _, p := range all {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			out = append(out, p)
		}
	}

	switch {
	case errors.Is(err, rollout.ErrNoWorkload):
		return nil, report.Usage(
			"name the release with --release and --namespace, or run csccm install",
			"release %s has no controller in namespace %s, which would have to test the new keys",
			r.Release, r.Cluster.Namespace,
		)
	case err == nil && len(out) == 0:
		return nil, report.CheckFailed(
			"csccm doctor says why no Pod runs; if the keys are the reason, csccm install --overwrite-secret "+
				"creates new ones",
			"no Pod of the controller runs, so nothing can test the keys",
		)
	}

	return out, err
}

// hear stores the current logs of the Pods, so that listen can recognize new messages.
func (r *run) hear(ctx context.Context) error {
	pods, err := r.pods(ctx)

	r.heard = map[string]string{}
	for _, p := range pods {
		log, lerr := r.PodLogs(ctx, &p, logLines)
		r.heard[p.Name], err = log, errors.Join(err, lerr)
	}

	return err
}

// prove waits until the controller works with the new keys. If it does not, prove writes the old keys back, which still
// work.
func (r *run) prove(ctx context.Context) error {
	err := r.proven(ctx)
	if err == nil || r.old == nil || ctx.Err() != nil {
		return err
	}

	state := "the Secret holds the old keys again, which still work"
	if back := r.writeBack(ctx); back != nil {
		state = fmt.Sprintf("and the old keys could not be restored: %v", back)
	} else {
		r.Note("the Secret holds the keys of user %q again", r.plan.From)
	}

	return report.Errorf(
		"see csccm doctor for the cause, and run csccm rotate-keys again",
		"the controller does not work with the new keys: %w; %s", err, state,
	)
}

// proven waits until the Pods reload the keys, and restarts them if they do not. A run that continues an earlier
// rotation restarts them at once, because it does not know which log messages are older than the change of the Secret.
func (r *run) proven(ctx context.Context) error {
	if !r.plan.switched {
		r.plan.Proof = "reload"
		r.Progress.Step("Waiting for the controller to reload the keys")
		if inTime, err := r.listen(ctx, reloadTimeout, saysReloaded, saysRefused, false); inTime || err != nil {
			return err
		}

		r.Progress.Done("")
		r.Progress.Info("the controller does not reload changed keys; restarting it, one Pod at a time")
	}

	r.plan.Proof = "restart"
	err := r.hear(ctx)
	if err == nil {
		err = rollout.Restart(ctx, r.Env)
	}

	if err == nil {
		err = rollout.Wait(ctx, r.Env)
	}

	if err != nil {
		return err
	}

	r.Progress.Step("Waiting for the controller to call CloudStack")
	inTime, err := r.listen(ctx, contactTimeout, saysWorks, saysFails, true)
	if err == nil && !inTime {
		err = fmt.Errorf("after a restart it logs nothing about CloudStack within %s", contactTimeout)
	}

	return err
}

// listen waits until the message good is new in the logs of the Pods, and reports whether that happened in time. If
// fresh is false, every Pod must log it, and the message bad ends the wait. If fresh is true, the Pods in r.heard are
// ignored and one Pod is enough, because only the leader calls CloudStack; the message bad does not end the wait,
// because the leader tries again.
func (r *run) listen(ctx context.Context, limit time.Duration, good, bad string, fresh bool) (inTime bool, err error) {
	var refused error
	inTime, err = poll.Until(ctx, r.Clock, proofPoll, limit, func() (bool, error) {
		pods, err := r.pods(ctx)

		said := 0
		for _, p := range pods {
			before, known := r.heard[p.Name]
			log, lerr := r.PodLogs(ctx, &p, logLines)
			switch {
			case lerr != nil || fresh && known: // the log of a Pod that starts or ends is read again
			case strings.Count(log, good) > strings.Count(before, good):
				said++
			case strings.Count(log, bad) > strings.Count(before, bad):
				begin := strings.LastIndexByte(log[:strings.LastIndex(log, bad)], '\n') + 1
				line, _, _ := strings.Cut(log[begin:], "\n")
				refused = fmt.Errorf("the log of Pod %s: %s", p.Name, r.Scrub(strings.TrimSpace(line)))
			}
		}

		r.plan.Pods = len(pods)
		if err == nil && !fresh {
			err = refused
		}

		return fresh && said > 0 || said == len(pods), err
	})

	switch {
	case inTime:
		r.Progress.Done("%s", count(r.plan.Pods))
	case err == nil:
		err = refused
	}

	return inTime, err
}
