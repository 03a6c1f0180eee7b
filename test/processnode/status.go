// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/test/internal/must"
)

// publish writes the Pod's status. The UID in the patch prevents a write to a newer Pod of the same name.
func (w *worker) publish(ctx context.Context) (err error) {
	defer must.Return(&err)
	pod := w.latest()
	patch := must.Get(json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": w.podStatus(pod)}))
	_, err = w.node.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (w *worker) podStatus(pod *corev1.Pod) corev1.PodStatus {
	w.mu.Lock()
	s := w.state
	w.mu.Unlock()
	status := corev1.PodStatus{
		Phase:             phase(pod.Spec.RestartPolicy, s),
		HostIP:            w.node.o.Address,
		HostIPs:           []corev1.HostIP{{IP: w.node.o.Address}},
		PodIP:             w.podIP,
		PodIPs:            []corev1.PodIP{{IP: w.podIP}},
		QOSClass:          pod.Status.QOSClass,
		StartTime:         pod.Status.StartTime,
		ContainerStatuses: []corev1.ContainerStatus{containerStatus(&pod.Spec.Containers[0], s)},
	}
	if status.StartTime == nil {
		now := metav1.Now()
		status.StartTime = &now
	}
	over := status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed
	ready, reason, message := corev1.ConditionTrue, "", ""
	switch {
	case status.Phase == corev1.PodSucceeded:
		ready, reason = corev1.ConditionFalse, "PodCompleted"
	case !s.ready || over:
		ready, reason = corev1.ConditionFalse, "ContainersNotReady"
		message = "containers with unready status: [" + pod.Spec.Containers[0].Name + "]"
	}
	sandboxed := corev1.ConditionTrue
	if s.id == "" || over {
		sandboxed = corev1.ConditionFalse
	}
	for _, c := range []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: sandboxed},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready, Reason: reason, Message: message},
		{Type: corev1.PodReady, Status: ready, Reason: reason, Message: message},
	} {
		c.LastTransitionTime = metav1.Now()
		for _, old := range pod.Status.Conditions {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		status.Conditions = append(status.Conditions, c)
	}
	return status
}

func phase(policy corev1.RestartPolicy, s containerState) corev1.PodPhase {
	switch {
	case s.terminated != nil && s.terminated.code == 0 && policy != corev1.RestartPolicyAlways:
		return corev1.PodSucceeded
	case s.terminated != nil && policy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	case s.running.IsZero() && s.terminated == nil && s.last == nil:
		return corev1.PodPending
	default:
		return corev1.PodRunning
	}
}

func containerStatus(c *corev1.Container, s containerState) corev1.ContainerStatus {
	started := s.started
	status := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: s.imageID, ContainerID: s.id,
		Ready: s.ready, Started: &started, RestartCount: s.restarts,
	}
	switch {
	case s.terminated != nil:
		status.State.Terminated = s.terminated.status()
	case !s.running.IsZero():
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.running)}
	case s.waiting != nil:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: s.waiting.reason, Message: s.waiting.message}
	}
	if s.last != nil {
		status.LastTerminationState.Terminated = s.last.status()
	}
	return status
}

func (e *ended) status() *corev1.ContainerStateTerminated {
	reason := "Completed"
	if e.code != 0 {
		reason = "Error"
	}
	if e.id == "" {
		reason = "StartError"
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: int32(e.code), // #nosec G115 -- at most 255
		Reason:   reason, Message: e.message, ContainerID: e.id,
		StartedAt: metav1.NewTime(e.started.Truncate(time.Second)), FinishedAt: metav1.NewTime(e.finished.Truncate(time.Second)),
	}
}
