// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// state is the progress of a rollout at one time.
type state struct {
	Done     bool
	Text     string   // progress in a few words
	Problems []string // problems of Pods, with their reasons
	// Stuck is the number of Pods that cannot be scheduled.
	Stuck     int
	Available int
	Wanted    int
	GiveUp    bool // waiting longer will not help
	failing   *corev1.Pod
}

// judge returns the state of a rollout. It is a pure function.
func judge(o *Workload, pods []corev1.Pod) state {
	s := state{Wanted: o.wanted, Available: o.available, Problems: slices.Clone(o.problems)}
	s.Text = fmt.Sprintf("%d of %d Pods updated, %d available", o.updated, s.Wanted, s.Available)
	// A DaemonSet without a matching node is a problem; a Deployment with 0 replicas is intended.
	nowhere := o.Kind == "DaemonSet" && o.wanted == 0
	s.Done = o.observed && o.updated >= s.Wanted && s.Available >= s.Wanted && o.old == 0 && !nowhere
	s.GiveUp = o.observed && nowhere
	ready := 0
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || !o.has(p) {
			continue
		}
		if cluster.PodReady(p) {
			ready++
			continue
		}
		problem, unschedulable, failed := podProblem(p)
		if unschedulable {
			s.Stuck++
		}
		if problem != "" {
			s.Problems = append(s.Problems, fmt.Sprintf("Pod %s: %s", p.Name, problem))
			s.failing = p
		}
		s.GiveUp = s.GiveUp || failed
	}
	// If one Pod works, the problems of the others are caused by their nodes.
	s.GiveUp = s.GiveUp && ready == 0
	slices.Sort(s.Problems)
	return s
}

// podProblem returns why a Pod is not ready; "" if it is just starting.
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
			// The message of CrashLoopBackOff only repeats the reason.
			if w.Message != "" && w.Reason != "CrashLoopBackOff" {
				problem += ": " + w.Message
			}
			if last != nil {
				problem += " (" + ended(last) + ")"
			}
			return problem, false, int(c.RestartCount) >= maxRestarts
		case last != nil && c.RestartCount > 0:
			return fmt.Sprintf("restarted %d times, %s", c.RestartCount, ended(last)), false, int(c.RestartCount) > maxRestarts
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
