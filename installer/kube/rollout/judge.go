// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
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
	problem = cluster.PodWaits(p)
	if p.Status.Phase == corev1.PodFailed {
		problem = strings.TrimSpace(fmt.Sprintf("failed: %s %s", p.Status.Reason, p.Status.Message))
	}
	for _, c := range p.Status.Conditions {
		unschedulable = unschedulable || c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	}
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		if c.State.Running != nil {
			problem = "runs, but is not ready"
		}
		if t := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated); t != nil && problem != "" {
			problem += fmt.Sprintf(" (last exit code %d: %s", t.ExitCode, strings.TrimSpace(t.Message))
			problem = strings.TrimSuffix(problem, ": ") + ")"
		}
		givenUp = givenUp || int(c.RestartCount) >= maxRestarts && c.State.Running == nil
	}
	return problem, unschedulable, givenUp
}
