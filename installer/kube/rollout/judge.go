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

// maxRestarts is the number of restarts after which a Pod that never became ready has failed.
const maxRestarts = 3

// state is the progress of a rollout at one time.
type state struct {
	Done     bool
	Problems []string // with their reasons
	// Stuck is the number of Pods that cannot be scheduled.
	Stuck   int32
	GiveUp  bool // waiting longer will not help
	failing *corev1.Pod
}

// judge returns the state of a rollout. It is a pure function.
func judge(o *cluster.Workload, pods []corev1.Pod) state {
	var s state
	// A DaemonSet without a matching node is a problem; a Deployment with 0 replicas is intended.
	nowhere := o.Kind == "DaemonSet" && o.Wanted == 0
	s.Done = o.Observed && o.Updated >= o.Wanted && o.Available >= o.Wanted && o.Old == 0 && !nowhere
	s.GiveUp = o.Observed && nowhere
	switch {
	case s.GiveUp:
		s.Problems = []string{"no node is one that it may run on: see nodeSelector and affinity in the chart's values (without them: nodes of the control plane), and tolerations"}
	case o.Problem != "":
		s.Problems = []string{o.Problem}
	}
	ready := false
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || o.Newest != "" && p.Labels[o.PodLabel] != o.Newest {
			continue
		}
		if cluster.PodReady(p) {
			ready = true
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
	s.GiveUp = s.GiveUp && !ready
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
		last := ""
		for _, s := range []corev1.ContainerState{c.LastTerminationState, c.State} {
			if t := s.Terminated; t != nil {
				last = strings.TrimSuffix(fmt.Sprintf("last exit code %d: %s", t.ExitCode, strings.TrimSpace(t.Message)), ": ")
			}
		}
		switch w := c.State.Waiting; {
		case w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing":
			problem = w.Reason
			// The message of CrashLoopBackOff only repeats the reason.
			if w.Message != "" && w.Reason != "CrashLoopBackOff" {
				problem += ": " + w.Message
			}
			if last != "" {
				problem += " (" + last + ")"
			}
			return problem, false, int(c.RestartCount) >= maxRestarts
		case last != "" && c.RestartCount > 0:
			return fmt.Sprintf("restarted %d times, %s", c.RestartCount, last), false, int(c.RestartCount) > maxRestarts
		case c.State.Running != nil && !c.Ready:
			return "runs, but is not ready", false, false
		}
	}
	return "", false, false
}
