// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout waits for the controller's Deployment or DaemonSet, or for another workload. It does not use
// Helm's --wait, which considers a Deployment without any Pod ready if
// maxUnavailable equals the number of replicas.
package rollout

import (
	"context"
	"errors"
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

// Target names a Deployment, DaemonSet or StatefulSet.
type Target struct{ Kind, Namespace, Name string }

// Waiter waits for one release's Deployment or DaemonSet.
type Waiter struct {
	Cluster *cluster.Cluster
	Release string
	// Of is the workload to wait for; nil means that of the Release.
	Of       *Target
	Clock    clock.WithTicker
	Progress report.Progress
	Limit    time.Duration // 0 means DefaultTimeout
	// PodLogs returns the last lines of a container's log, which explain a failure; may be nil.
	PodLogs func(ctx context.Context, pod *corev1.Pod, lines int64) (string, error)
	// Scrub removes secrets from Events and logs; may be nil.
	Scrub func(string) string
}

// Wait waits until the controller's Pods are ready.
func (w *Waiter) Wait(ctx context.Context) error {
	limit := w.Limit
	if limit == 0 {
		limit = DefaultTimeout
	}
	if w.Of != nil {
		w.Progress.Step("Waiting for the Pods of %s", w.who())
	} else {
		w.Progress.Step("Waiting for the controller's Pods")
	}
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
			return w.failed(ctx, o, s, 0)
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
			return w.failed(ctx, o, s, limit)
		case <-w.Clock.After(poll):
		}
	}
}

func (w *Waiter) who() string {
	if w.Of != nil {
		return w.Of.Kind + " " + w.Of.Namespace + "/" + w.Of.Name
	}
	return "the controller"
}

func (w *Waiter) namespace() string {
	if w.Of != nil {
		return w.Of.Namespace
	}
	return w.Cluster.Namespace
}

// options selects the workload.
func (w *Waiter) options() metav1.ListOptions {
	if w.Of != nil {
		return metav1.ListOptions{FieldSelector: "metadata.name=" + w.Of.Name}
	}
	return cluster.OfRelease(w.Release)
}

// podsOf selects the Pods and ReplicaSets of the workload.
func (w *Waiter) podsOf(selector *metav1.LabelSelector) metav1.ListOptions {
	if w.Of != nil {
		return metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)}
	}
	return w.options()
}

// Read returns the workload and its Pods.
func (w *Waiter) Read(ctx context.Context) (*Workload, []corev1.Pod, error) {
	o, err := w.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	pods, err := w.Cluster.Kube.CoreV1().Pods(o.Namespace).List(ctx, w.podsOf(o.selector))
	if err != nil {
		return nil, nil, w.Cluster.Explain(err)
	}
	return o, pods.Items, nil
}

// failed reports Events and log lines that explain the failure, and returns the error; timedOut is how long
// Wait has waited if the time is up. It has its own time-out, because the one of ctx may have expired.
func (w *Waiter) failed(ctx context.Context, o *Workload, s state, timedOut time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	e := &report.Error{
		What: w.who() + " does not come up: " + s.Text, Code: report.ExitFailure,
		Fix: fmt.Sprintf("remove the cause and run the command again: it continues here; see also kubectl -n %s describe %s %s",
			o.Namespace, strings.ToLower(o.Kind), o.Name),
	}
	if timedOut > 0 {
		e.What, e.Code = fmt.Sprintf("%s did not come up within %s: %s", w.who(), timedOut.Round(time.Second), s.Text), report.ExitTimeout
	}
	if len(s.Problems) > 0 {
		e.What += "; " + s.Problems[0]
	}
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

// ErrNoWorkload means that the release has no Deployment or DaemonSet of the controller.
var ErrNoWorkload = errors.New("no Deployment or DaemonSet is labelled app.kubernetes.io/name=cloudstack-ccm")
