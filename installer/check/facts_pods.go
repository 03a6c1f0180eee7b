// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/podlog"
)

// How much of a Pod's log is read.
const (
	logSeconds = int64(3600)
	logLines   = int64(2000)
)

// readOwnPods are the Pods of the release.
func (e *Env) readOwnPods(ctx context.Context) ([]corev1.Pod, error) {
	workloads, err := e.facts.workloads.get(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := e.facts.pods.get(ctx)
	return decide.OwnPods(e.Release, e.Namespace, workloads, pods), err
}

// readLogs reads the logs of the release's Pods that run.
func (e *Env) readLogs(ctx context.Context) ([]decide.Log, error) {
	pods, err := e.facts.ownPods.get(ctx)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	out := make([]decide.Log, len(pods))
	group, gctx := errgroup.WithContext(ctx)
	for i := range pods {
		group.Go(func() error {
			seconds, lines := logSeconds, logLines
			raw, err := e.Cluster.Kube.CoreV1().Pods(pods[i].Namespace).
				GetLogs(pods[i].Name, &corev1.PodLogOptions{SinceSeconds: &seconds, TailLines: &lines}).DoRaw(gctx)
			if err != nil {
				return e.Cluster.Explain(err)
			}
			out[i].Pod = pods[i].Name
			out[i].Lines, _ = podlog.ParseAll(string(raw), e.Clock.Now())
			return nil
		})
	}
	return out, group.Wait()
}

const (
	securePort  = 10258
	healthzBody = "ok"
)

// readAnswers asks each ready Pod of the release for its health and its metrics.
func (e *Env) readAnswers(ctx context.Context) ([]decide.Answer, error) {
	pods, err := e.facts.ownPods.get(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]decide.Answer, len(pods))
	group, gctx := errgroup.WithContext(ctx)
	for i := range pods {
		out[i].Pod = &pods[i]
		group.Go(func() error {
			e.ask(gctx, &out[i])
			return nil
		})
	}
	return out, group.Wait()
}

func (e *Env) ask(ctx context.Context, a *decide.Answer) {
	pods, port := e.Cluster.Kube.CoreV1().Pods(a.Pod.Namespace), strconv.Itoa(portOf(a.Pod))
	get := func(path string) (body string, err error) {
		raw, err := pods.ProxyGet("https", a.Pod.Name, port, path, nil).DoRaw(ctx)
		return strings.TrimSpace(string(raw)), err
	}
	body, err := get("healthz")
	switch {
	case err == nil:
		a.Health, a.Healthy = body, body == healthzBody
	case strings.Contains(err.Error(), "healthz check failed"):
		a.Health = decide.OneLine(err.Error())
		return
	default:
		a.Err = e.Cluster.Explain(err)
		return
	}
	_, err = get("metrics")
	// The API server hands no identity on, so a controller that serves metrics refuses.
	a.Metrics = err == nil || !apierrors.IsNotFound(err)
}

// portOf is the port of health checks and metrics.
func portOf(p *corev1.Pod) int {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.Name == "https" {
				return int(port.ContainerPort)
			}
		}
	}
	return securePort
}
