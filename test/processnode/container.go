// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// runOnce runs the container until it ends and returns its exit code.
func (w *worker) runOnce(ctx context.Context, run int) (code int) {
	end := &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", StartedAt: metav1.Now()}
	if p, err := w.launch(ctx, run); err != nil {
		w.warn("Failed", "Error: "+err.Error())
		end.Message = err.Error()
	} else {
		end.ContainerID = fmt.Sprintf("process://%d-%d", p.PID(), end.StartedAt.UnixNano())
		code = w.follow(ctx, p, run, end.ContainerID, end.StartedAt)
		end.Reason, end.ExitCode = "Completed", int32(code) // #nosec G115 -- at most 255
		if code != 0 {
			end.Reason = "Error"
		}
	}
	end.FinishedAt = metav1.Now()
	w.move(corev1.ContainerState{Terminated: end}, func(*corev1.ContainerStatus) { w.process = nil })
	return int(end.ExitCode)
}

// follow probes a process until it ends, and stops it when the Pod ends. It returns the exit code.
func (w *worker) follow(ctx context.Context, p *child.Process, run int, id string, started metav1.Time) (code int) {
	c := w.container()
	w.move(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		func(s *corev1.ContainerStatus) {
			w.process = p
			s.ContainerID, s.ImageID, s.RestartCount = id, c.Image, int32(run) // #nosec G115 -- a few
			s.Started, s.Ready = ptr.To(c.StartupProbe == nil), c.StartupProbe == nil && c.ReadinessProbe == nil
		})

	probing, stopProbes := context.WithCancel(ctx)
	probes := sync.WaitGroup{}
	probes.Go(func() { w.probe(probing, p) })
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(w.grace())
	}

	stopProbes()
	probes.Wait()
	return p.ExitCode()
}

// move sets the container's state; the container is not ready then. The end of a run becomes its last state.
func (w *worker) move(to corev1.ContainerState, change func(*corev1.ContainerStatus)) {
	w.set(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.State, s.Ready, s.Started = to, false, ptr.To(false)
		change(s)
	})
}

func (w *worker) wait(reason, message string) {
	w.move(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		func(*corev1.ContainerStatus) {})
}

// set changes the status and wakes report.
func (w *worker) set(change func(*corev1.ContainerStatus)) {
	w.mu.Lock()
	change(&w.status)
	w.mu.Unlock()
	w.notify()
}

// notify wakes report.
func (w *worker) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// report writes the status to the API whenever it changes, until the Pod ends.
func (w *worker) report() {
	for {
		select {
		case <-w.life.Done():
			return
		case <-w.changed:
		}
		ctx, cancel := context.WithTimeout(w.life, requestLimit)
		err := w.publish(ctx)
		cancel()
		if err != nil && sleep(w.life, retryPeriod) {
			w.notify()
		}
	}
}

// publish writes the Pod's status. The UID in the patch prevents a write to a newer Pod of the same name.
func (w *worker) publish(ctx context.Context) (err error) {
	defer must.Return(&err)
	w.mu.Lock()
	pod, s := w.pod, w.status
	w.mu.Unlock()
	patch := must.Get(json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   w.podStatus(pod, s),
	}))
	_, err = w.node.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}

func (w *worker) podStatus(pod *corev1.Pod, s corev1.ContainerStatus) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: phase(pod.Spec.RestartPolicy, s), QOSClass: pod.Status.QOSClass,
		HostIP: w.node.o.Address, HostIPs: []corev1.HostIP{{IP: w.node.o.Address}},
		PodIP: w.podIP, PodIPs: []corev1.PodIP{{IP: w.podIP}},
		StartTime:         or(pod.Status.StartTime, ptr.To(metav1.Now())),
		ContainerStatuses: []corev1.ContainerStatus{s},
	}

	ready, reason := corev1.ConditionTrue, ""
	switch {
	case status.Phase == corev1.PodSucceeded:
		ready, reason = corev1.ConditionFalse, "PodCompleted"
	case !s.Ready:
		ready, reason = corev1.ConditionFalse, "ContainersNotReady"
	}

	for _, c := range []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready, Reason: reason},
		{Type: corev1.PodReady, Status: ready, Reason: reason},
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

func over(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func phase(policy corev1.RestartPolicy, s corev1.ContainerStatus) corev1.PodPhase {
	end := s.State.Terminated
	switch {
	case end != nil && end.ExitCode == 0 && policy != corev1.RestartPolicyAlways:
		return corev1.PodSucceeded
	case end != nil && policy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	case end == nil && s.State.Running == nil && s.LastTerminationState.Terminated == nil:
		return corev1.PodPending
	default:
		return corev1.PodRunning
	}
}
