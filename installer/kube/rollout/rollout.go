// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout waits for the controller's Deployment or DaemonSet. It does not use
// Helm's --wait, which considers a Deployment without any Pod ready if
// maxUnavailable equals the number of replicas.
package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// Times of the wait for the controller's Pods.
const (
	DefaultTimeout = 5 * time.Minute
	poll           = 500 * time.Millisecond
	// settleTime is how long to wait for Pods that cannot be scheduled while
	// another Pod works, as with more replicas than nodes in a small cluster.
	settleTime = 10 * time.Second
	// maxRestarts is the number of restarts after which a Pod that never became ready has failed.
	maxRestarts = 3
)

// Waiter waits for one release's Deployment or DaemonSet.
type Waiter struct {
	Cluster  *cluster.Cluster
	Release  string
	Clock    clock.WithTicker
	Progress report.Progress
	Limit    time.Duration // 0 means DefaultTimeout
	// PodLogs returns the last lines of a container's log, which explain a failure; may be nil.
	PodLogs func(ctx context.Context, pod *corev1.Pod, lines int64) (string, error)
	// Scrub removes secrets from Events and logs; may be nil.
	Scrub func(string) string
}

// Error means that the controller's Pods did not become ready.
type Error struct {
	Kind, Namespace, Name string // of the Deployment or DaemonSet

	After    time.Duration
	TimedOut bool
	State    string
	Causes   []string // Pods with reasons, Events, last log lines
}

func (e *Error) Error() string {
	s := fmt.Sprintf("the controller did not come up within %s: %s", e.After.Round(time.Second), e.State)
	if !e.TimedOut {
		s = fmt.Sprintf("the controller does not come up: %s", e.State)
	}
	if len(e.Causes) > 0 {
		s += "; " + e.Causes[0]
	}
	return s
}

// Remedy returns what to do and where to find the cause.
func (e *Error) Remedy() string {
	return fmt.Sprintf("remove the cause and run the command again: it continues here; see also kubectl -n %s describe %s %s",
		e.Namespace, strings.ToLower(e.Kind), e.Name)
}

// ExitCode distinguishes a time-out from other failures.
func (e *Error) ExitCode() int {
	if e.TimedOut {
		return report.ExitTimeout
	}
	return report.ExitFailure
}

// Wait waits until the controller's Pods are ready.
func (w *Waiter) Wait(ctx context.Context) error {
	limit := w.Limit
	if limit == 0 {
		limit = DefaultTimeout
	}
	w.Progress.Step("Waiting for the controller's Pods")
	began := w.Clock.Now()
	deadline := w.Clock.After(limit)
	var said string
	var stuckSince time.Time
	for {
		o, pods, err := w.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			w.Progress.Fail("")
			return err
		}
		s := judge(o, pods)
		now := w.Clock.Now()
		if s.Stuck == 0 || s.Available == 0 || s.Available+s.Stuck < s.Wanted {
			stuckSince = now
		}
		switch {
		case s.Done:
			w.Progress.Done("%d running", s.Wanted)
			return nil
		case now.Sub(stuckSince) >= settleTime:
			w.Progress.Warn("%s", strings.Join(s.Problems, "; "))
			w.Progress.Done("%d of %d running; no node can take more now", s.Available, s.Wanted)
			return nil
		case s.GiveUp:
			w.Progress.Fail("")
			return w.failed(ctx, o, s, w.Clock.Since(began), false)
		}
		if text := strings.Join(s.Problems, "; "); text != said && text != "" {
			said = text
			w.Progress.Info("%s", text)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			w.Progress.Fail("")
			return w.failed(ctx, o, s, limit, true)
		case <-w.Clock.After(poll):
		}
	}
}

func (w *Waiter) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + w.Release}
}

// Read returns the release's Deployment or DaemonSet and its Pods.
func (w *Waiter) Read(ctx context.Context) (*Workload, []corev1.Pod, error) {
	o, err := w.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	pods, err := w.Cluster.Kube.CoreV1().Pods(w.Cluster.Namespace).List(ctx, w.selector())
	if err != nil {
		return nil, nil, w.Cluster.Explain(err)
	}
	return o, pods.Items, nil
}

// failed reports Events and log lines that explain the failure, and returns the error. It has its own
// time-out, because the one of ctx may have expired.
func (w *Waiter) failed(ctx context.Context, o *Workload, s state, after time.Duration, timedOut bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	e := &Error{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, After: after, TimedOut: timedOut, State: s.Text, Causes: s.Problems}
	if s.failing != nil {
		events, err := w.Cluster.Kube.CoreV1().Events(o.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + s.failing.Name + ",type=Warning",
		})
		if err == nil {
			for i := range events.Items {
				ev := &events.Items[i]
				if ev.InvolvedObject.Name == s.failing.Name && ev.Type == corev1.EventTypeWarning {
					w.Progress.Warn("Event %s: %s", ev.Reason, w.scrub(ev.Message))
				}
			}
		}
		if w.PodLogs != nil {
			if log, err := w.PodLogs(ctx, s.failing, 10); err == nil && strings.TrimSpace(log) != "" {
				w.Progress.Info("last lines of the log of Pod %s:", s.failing.Name)
				for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
					w.Progress.Info("  %s", w.scrub(line))
				}
			}
		}
	}
	return e
}

func (w *Waiter) scrub(text string) string {
	if w.Scrub == nil {
		return text
	}
	return w.Scrub(text)
}

// NoWorkloadError means that the release has no Deployment or DaemonSet of the controller.
type NoWorkloadError struct{ what, fix string }

func (e *NoWorkloadError) Error() string { return e.what }

// Remedy returns what to check.
func (e *NoWorkloadError) Remedy() string { return e.fix }

// ExitCode returns the exit code for wrong input.
func (e *NoWorkloadError) ExitCode() int { return report.ExitUsage }
