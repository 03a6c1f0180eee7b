// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selftest has the controller's program prove in the cluster, in a Pod with its Secret, its proxy
// and its certificates, that it can do with CloudStack what it will need to do. The Pod is the chart's
// own, which helm test runs too.
package selftest

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/selftest"
)

// Times of a run.
const (
	// timeout is how long the Pod may take, from its creation to its end.
	timeout     = 2 * time.Minute
	poll        = 250 * time.Millisecond
	removalTime = 20 * time.Second
	logLines    = 200
)

// Result is the result of a self-test.
type Result struct {
	Pod, Node string
	At        time.Time
	Passed    bool
	Findings  []Finding
	// Problem and Fix say why it did not pass.
	Problem, Fix string
}

// Finding is a fact that was verified.
type Finding struct {
	OK            bool // false: the controller works, but see Text
	Subject, Text string
}

// failed returns the error of a self-test that did not pass.
func failed(r *Result) error {
	where := r.Pod
	if r.Node != "" {
		where += " on node " + r.Node
	}
	return &report.Error{
		What: fmt.Sprintf("the self-test in Pod %s failed: %s", where, r.Problem), Code: report.ExitCheckFailed,
		Fix: cmp.Or(r.Fix, "remove the cause and run the command again: it continues here (or leave the self-test out with --skip-self-test)"),
	}
}

// NotRunError is a self-test that could not be run: nothing is known by it.
type NotRunError struct{ why string }

func (e *NotRunError) Error() string { return "the self-test did not run: " + e.why }

// Runner runs self-tests.
type Runner struct {
	Kube      kubernetes.Interface
	Namespace string
	Clock     clock.Clock
	Progress  report.Progress
	// Logs returns the last lines of a Pod's log.
	Logs func(ctx context.Context, pod *corev1.Pod, lines int64) (string, error)
	// Scrub removes secrets from text of others; may be nil.
	Scrub func(string) string
}

// Pod reads the test Pod's manifest; nil for one that is of another kind.
func Pod(manifest string) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(manifest), p); err != nil {
		return nil, fmt.Errorf("the chart's test: %w", err)
	}
	if p.Kind != "Pod" {
		return nil, nil //nolint:nilnil // no error: another kind of test
	}
	return p, nil
}

// Run runs the Pod to its end and removes it, whatever happens. Its error is a *report.Error, a *NotRunError,
// or ctx's.
func (r *Runner) Run(ctx context.Context, pod *corev1.Pod) (*Result, error) {
	pod = pod.DeepCopy()
	pod.Namespace = r.Namespace
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
		defer cancel()
		if err := r.remove(rctx, pod.Name); err != nil {
			r.Progress.Warn("Pod %s of the self-test stays: %v", pod.Name, err)
		}
	}()
	if err := r.remove(ctx, pod.Name); err != nil { // of a run that was killed, or of helm test
		return nil, r.notRun(ctx, err)
	}
	pods := r.Kube.CoreV1().Pods(r.Namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, r.notRun(ctx, err)
	}
	deadline := r.Clock.After(timeout)
	said := ""
	for {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return nil, r.notRun(ctx, err)
		}
		if now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed {
			return r.judge(ctx, now)
		}
		why := waitsFor(now)
		if why != said && why != "" {
			said = why
			r.Progress.Info("Pod %s: %s", now.Name, r.scrub(why))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-deadline:
			if why == "" {
				why = "it runs"
			}
			return nil, &NotRunError{fmt.Sprintf("Pod %s did not end within %s: %s", now.Name, timeout, r.scrub(why))}
		case <-r.Clock.After(poll):
		}
	}
}

func (r *Runner) notRun(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &NotRunError{r.scrub(err.Error())}
}

// judge reads the log of a Pod that has ended.
func (r *Runner) judge(ctx context.Context, pod *corev1.Pod) (*Result, error) {
	out := &Result{Pod: pod.Name, Node: pod.Spec.NodeName, At: r.Clock.Now(), Passed: pod.Status.Phase == corev1.PodSucceeded}
	log, err := r.Logs(ctx, pod, logLines)
	log = r.scrub(log)
	parse(log, out)
	if out.Passed {
		return out, nil
	}
	if out.Problem == "" {
		out.Problem = endOf(pod)
		if lines := strings.Split(strings.TrimSpace(log), "\n"); lines[len(lines)-1] != "" {
			out.Problem += ": " + lines[len(lines)-1]
		} else if err != nil {
			out.Problem += ", and its log cannot be read: " + err.Error()
		}
	}
	return out, failed(out)
}

// endOf says how a Pod's container ended.
func endOf(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			return fmt.Sprintf("its container ended with exit code %d (%s)", t.ExitCode, t.Reason)
		}
	}
	if pod.Status.Message != "" {
		return pod.Status.Message
	}
	return "it failed"
}

// waitsFor returns why a Pod does not run yet.
func waitsFor(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "not scheduled: " + c.Message
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
			return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
		}
	}
	return ""
}

// remove deletes a Pod and waits until it is gone.
func (r *Runner) remove(ctx context.Context, name string) error {
	pods := r.Kube.CoreV1().Pods(r.Namespace)
	for {
		err := pods.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.Clock.After(poll):
		}
	}
}

func (r *Runner) scrub(text string) string {
	if r.Scrub == nil {
		return text
	}
	return r.Scrub(text)
}

// parse reads the lines of a self-test and ignores other lines.
func parse(text string, r *Result) {
	for line := range strings.SplitSeq(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch mark {
		case selftest.MarkOK, selftest.MarkWarning:
			subject, what, _ := strings.Cut(rest, " ")
			r.Findings = append(r.Findings, Finding{OK: mark == selftest.MarkOK, Subject: subject, Text: strings.TrimSpace(what)})
		case selftest.MarkFailed:
			r.Problem = rest
		case selftest.MarkFix:
			r.Fix = rest
		}
	}
}
