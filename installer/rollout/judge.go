// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// state is what one look at the Deployment says.
type state struct {
	Done     bool
	Text     string   // progress in a few words
	Problems []string // of Pods, with their reasons
	// Stuck are Pods that no node can take now.
	Stuck     int
	Available int
	Wanted    int
	GiveUp    bool // it will not become better by waiting
	failing   *corev1.Pod
}

// judge is pure.
func judge(d *appsv1.Deployment, pods []corev1.Pod, newest string) state {
	s := state{Wanted: 1, Available: int(d.Status.AvailableReplicas)}
	if d.Spec.Replicas != nil {
		s.Wanted = int(*d.Spec.Replicas)
	}
	observed := d.Status.ObservedGeneration >= d.Generation
	updated := int(d.Status.UpdatedReplicas)
	s.Text = fmt.Sprintf("%d of %d Pods updated, %d available", updated, s.Wanted, s.Available)
	s.Done = observed && updated >= s.Wanted && s.Available >= s.Wanted && int(d.Status.Replicas) == updated
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			s.Problems = append(s.Problems, fmt.Sprintf("no Pod can be made: %s", c.Message))
		}
	}
	ready := 0
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || newest != "" && p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != newest {
			continue
		}
		if podReady(p) {
			ready++
			continue
		}
		problem, unschedulable, hopelessPod := podProblem(p)
		if unschedulable {
			s.Stuck++
		}
		if problem != "" {
			s.Problems = append(s.Problems, fmt.Sprintf("Pod %s: %s", p.Name, problem))
			s.failing = p
		}
		s.GiveUp = s.GiveUp || hopelessPod
	}
	// A working Pod means that the others' trouble is their node's.
	s.GiveUp = s.GiveUp && ready == 0
	slices.Sort(s.Problems)
	return s
}

// podProblem says why a Pod is not ready yet; "" when it is merely young.
func podProblem(p *corev1.Pod) (problem string, unschedulable, givenUp bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s: %s", c.Reason, c.Message), c.Reason == corev1.PodReasonUnschedulable, false
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		return fmt.Sprintf("failed: %s %s", p.Status.Reason, p.Status.Message), false, false
	}
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		last := c.LastTerminationState.Terminated
		if c.State.Terminated != nil {
			last = c.State.Terminated
		}
		switch w := c.State.Waiting; {
		case w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing":
			problem = w.Reason
			// The message of a back-off only says that there is one.
			if w.Message != "" && w.Reason != "CrashLoopBackOff" {
				problem += ": " + w.Message
			}
			if last != nil {
				problem += " (" + ended(last) + ")"
			}
			return problem, false, int(c.RestartCount) >= hopeless
		case last != nil && c.RestartCount > 0:
			return fmt.Sprintf("restarted %d times, %s", c.RestartCount, ended(last)), false, int(c.RestartCount) > hopeless
		case c.State.Running != nil && !c.Ready:
			return "runs, but is not ready", false, false
		}
	}
	return "", false, false
}

func ended(t *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("last exit code %d", t.ExitCode)
	if t.Message != "" {
		s += ": " + strings.TrimSpace(t.Message)
	}
	return s
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
