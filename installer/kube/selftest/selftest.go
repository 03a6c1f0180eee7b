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

// Run runs the Pod of a chart's test to its end, shows what it found, and removes it, whatever happens. passed is where it ran;
// "" where it could not be run, which is a warning: nothing is known then.
func Run(ctx context.Context, e *engine.Env, manifest string) (passed string, err error) {
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(manifest), pod); err != nil {
		return "", fmt.Errorf("the chart's test: %w", err)
	}
	if pod.Kind != "Pod" {
		return "", nil // another kind of test
	}
	pod.Namespace = e.Cluster.Namespace
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
		defer cancel()
		if err := remove(rctx, e, pod.Name); err != nil {
			e.Progress.Warn("Pod %s of the self-test stays: %v", pod.Name, err)
		}
	}()
	pod, why, err := runToEnd(ctx, e, pod)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		why = err.Error()
	}
	if why != "" {
		e.Progress.Warn("the self-test did not run: %s", e.Scrubbed(why))
		return "", nil
	}
	log, err := e.PodLogs(ctx, pod, logLines)
	log = strings.TrimSpace(e.Scrubbed(log))
	problem, fix := Show(e.Progress, log)
	where := fmt.Sprintf("Pod %s on node %s", pod.Name, pod.Spec.NodeName)
	if pod.Status.Phase == corev1.PodSucceeded {
		return where, nil
	}
	if problem == "" { // the program did not get to say it
		problem = cmp.Or(pod.Status.Message, "it failed")
		for _, s := range pod.Status.ContainerStatuses {
			if t := s.State.Terminated; t != nil {
				problem = fmt.Sprintf("its container ended with exit code %d (%s)", t.ExitCode, t.Reason)
			}
		}
		if err != nil {
			log = err.Error()
		}
		problem = strings.TrimSuffix(problem+": "+log[strings.LastIndex(log, "\n")+1:], ": ")
	}
	return "", &report.Error{
		What: fmt.Sprintf("the self-test in %s failed: %s", where, problem), Code: report.ExitCheckFailed,
		Fix: cmp.Or(fix, "remove the cause and run the command again: it continues here (or leave the self-test out with --skip-self-test)"),
	}
}

// runToEnd returns the Pod as it ended, or why it did not end.
func runToEnd(ctx context.Context, e *engine.Env, pod *corev1.Pod) (ended *corev1.Pod, why string, err error) {
	pods := e.Cluster.Kube.CoreV1().Pods(pod.Namespace)
	if err := remove(ctx, e, pod.Name); err != nil { // of a run that was killed, or of helm test
		return pod, "", err
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return pod, "", err
	}
	inTime, err := engine.Poll(ctx, e.Clock, poll, timeout, func() (bool, error) {
		ended, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		why = cluster.PodWaits(ended)
		return ended.Status.Phase == corev1.PodSucceeded || ended.Status.Phase == corev1.PodFailed, nil
	})
	if err != nil || inTime {
		return ended, "", err
	}
	return pod, fmt.Sprintf("Pod %s did not end within %s: %s", pod.Name, timeout, cmp.Or(why, "it runs")), nil
}

// remove deletes a Pod and waits until it is gone.
func remove(ctx context.Context, e *engine.Env, name string) error {
	_, err := engine.Poll(ctx, e.Clock, poll, math.MaxInt64, func() (bool, error) {
		err := e.Cluster.Kube.CoreV1().Pods(e.Cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	return err
}

// Show shows what the lines of a self-test say, and returns why it failed. It ignores other lines.
func Show(p *report.Progress, text string) (problem, fix string) {
	for line := range strings.SplitSeq(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		subject, what, _ := strings.Cut(rest, " ")
		switch mark {
		case selftest.MarkOK:
			p.Info("%s: %s", subject, strings.TrimSpace(what))
		case selftest.MarkWarning:
			p.Warn("%s: %s", subject, strings.TrimSpace(what))
		case selftest.MarkFailed:
			problem = rest
		case selftest.MarkFix:
			fix = rest
		}
	}
	return problem, fix
}
