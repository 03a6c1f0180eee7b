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
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
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
	Pod, Node    string
	At           time.Time
	Passed       bool
	Findings     []Finding
	Problem, Fix string // why it did not pass
}

// Finding is a fact that was verified.
type Finding struct {
	OK            bool // false: the controller works, but see Text
	Subject, Text string
}

// NotRunError is a self-test that could not be run: nothing is known by it.
type NotRunError struct{ why string }

func (e *NotRunError) Error() string { return "the self-test did not run: " + e.why }

// Runner runs self-tests.
type Runner struct {
	Kube      kubernetes.Interface
	Namespace string
	Clock     clock.Clock
	Progress  *report.Progress
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
	said, why := "", ""
	ended, err := engine.Poll(ctx, r.Clock, poll, timeout, func() (bool, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		pod = now
		if why = cluster.PodWaits(pod); why != said && why != "" {
			said = why
			r.Progress.Info("Pod %s: %s", pod.Name, r.scrub(why))
		}
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, nil
	})
	switch {
	case err != nil:
		return nil, r.notRun(ctx, err)
	case !ended:
		return nil, &NotRunError{fmt.Sprintf("Pod %s did not end within %s: %s", pod.Name, timeout, r.scrub(cmp.Or(why, "it runs")))}
	}
	return r.judge(ctx, pod)
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
	log = strings.TrimSpace(r.scrub(log))
	Parse(log, out)
	if out.Passed {
		return out, nil
	}
	if out.Problem == "" { // the program did not get to say it
		out.Problem = cmp.Or(pod.Status.Message, "it failed")
		for _, s := range pod.Status.ContainerStatuses {
			if t := s.State.Terminated; t != nil {
				out.Problem = fmt.Sprintf("its container ended with exit code %d (%s)", t.ExitCode, t.Reason)
			}
		}
		if err != nil {
			log = err.Error()
		}
		out.Problem = strings.TrimSuffix(out.Problem+": "+log[strings.LastIndex(log, "\n")+1:], ": ")
	}
	return out, &report.Error{
		What: fmt.Sprintf("the self-test in Pod %s on node %s failed: %s", pod.Name, pod.Spec.NodeName, out.Problem), Code: report.ExitCheckFailed,
		Fix: cmp.Or(out.Fix, "remove the cause and run the command again: it continues here (or leave the self-test out with --skip-self-test)"),
	}
}

// remove deletes a Pod and waits until it is gone.
func (r *Runner) remove(ctx context.Context, name string) error {
	_, err := engine.Poll(ctx, r.Clock, poll, math.MaxInt64, func() (bool, error) {
		err := r.Kube.CoreV1().Pods(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	return err
}

func (r *Runner) scrub(text string) string {
	if r.Scrub == nil {
		return text
	}
	return r.Scrub(text)
}

// Parse reads the lines of a self-test and ignores other lines.
func Parse(text string, r *Result) {
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
