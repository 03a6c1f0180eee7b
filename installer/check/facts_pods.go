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

	"github.com/csccm/csccm/installer/kube/podlog"
)

// How much of a Pod's log is read.
const (
	logSeconds = int64(3600)
	logLines   = int64(2000)
)

// logOf is what one Pod of the controller wrote in the last hour.
type logOf struct {
	pod   string
	lines []podlog.Line
}

// readOwnPods are the Pods of the release.
func (e *Env) readOwnPods(ctx context.Context) ([]corev1.Pod, error) {
	workloads, err := e.facts.workloads.get(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := e.facts.pods.get(ctx)
	return ownPods(e.Release, e.Namespace, workloads, pods), err
}

// readLogs reads the logs of the release's Pods that run.
func (e *Env) readLogs(ctx context.Context) ([]logOf, error) {
	pods, err := e.facts.ownPods.get(ctx)
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodPending })
	out := make([]logOf, len(pods))
	group, gctx := errgroup.WithContext(ctx)
	for i := range pods {
		group.Go(func() error {
			seconds, lines := logSeconds, logLines
			raw, err := e.Cluster.Kube.CoreV1().Pods(pods[i].Namespace).
				GetLogs(pods[i].Name, &corev1.PodLogOptions{SinceSeconds: &seconds, TailLines: &lines}).DoRaw(gctx)
			if err != nil {
				return e.Cluster.Explain(err)
			}
			out[i].pod = pods[i].Name
			out[i].lines, _ = podlog.ParseAll(string(raw), e.Clock.Now())
			return nil
		})
	}
	return out, group.Wait()
}

// answerOf is what a Pod's own endpoints said through the API server.
type answerOf struct {
	pod     *corev1.Pod
	health  string // body of /healthz; "" when it could not be asked
	healthy bool
	metrics bool  // /metrics is there, if only to refuse a caller without rights
	err     error // why it could not be asked
}

const (
	securePort  = 10258
	healthzBody = "ok"
)

// readAnswers asks each ready Pod of the release for its health and its metrics.
func (e *Env) readAnswers(ctx context.Context) ([]answerOf, error) {
	pods, err := e.facts.ownPods.get(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]answerOf, len(pods))
	group, gctx := errgroup.WithContext(ctx)
	for i := range pods {
		out[i].pod = &pods[i]
		group.Go(func() error {
			e.ask(gctx, &out[i])
			return nil
		})
	}
	return out, group.Wait()
}

func (e *Env) ask(ctx context.Context, a *answerOf) {
	pods, port := e.Cluster.Kube.CoreV1().Pods(a.pod.Namespace), strconv.Itoa(portOf(a.pod))
	get := func(path string) (body string, err error) {
		raw, err := pods.ProxyGet("https", a.pod.Name, port, path, nil).DoRaw(ctx)
		return strings.TrimSpace(string(raw)), err
	}
	body, err := get("healthz")
	switch {
	case err == nil:
		a.health, a.healthy = body, body == healthzBody
	case strings.Contains(err.Error(), "healthz check failed"):
		a.health = oneLine(err.Error())
		return
	default:
		a.err = e.Cluster.Explain(err)
		return
	}
	_, err = get("metrics")
	// The API server hands no identity on, so a controller that serves metrics refuses.
	a.metrics = err == nil || !apierrors.IsNotFound(err)
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
