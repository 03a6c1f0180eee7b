// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/report"
)

// Times of the wait for the controller's Pods.
const (
	DefaultRolloutTimeout = 5 * time.Minute
	rolloutPoll           = 500 * time.Millisecond
	// settleTime is how long Pods that no node can take are waited for while
	// another one works: a surplus replica of a small cluster.
	settleTime = 10 * time.Second
	// hopeless is after how many restarts a Pod is given up that never became ready.
	hopeless = 3
)

// rolloutState is what one look at the Deployment says. It is judged without
// Helm, whose --wait takes a Deployment for ready that has no Pod yet where
// maxUnavailable equals the replicas.
type rolloutState struct {
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

// judgeRollout is pure.
func judgeRollout(d *appsv1.Deployment, pods []corev1.Pod, newest string) rolloutState {
	s := rolloutState{Wanted: 1, Available: int(d.Status.AvailableReplicas)}
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

// RolloutError is a controller that does not come up.
type RolloutError struct {
	Deployment string
	After      time.Duration
	TimedOut   bool
	State      string
	Causes     []string // Pods with reasons, Events, last log lines
}

func (e *RolloutError) Error() string {
	s := fmt.Sprintf("the controller did not come up within %s: %s", e.After.Round(time.Second), e.State)
	if !e.TimedOut {
		s = fmt.Sprintf("the controller does not come up: %s", e.State)
	}
	if len(e.Causes) > 0 {
		s += "; " + e.Causes[0]
	}
	return s
}

// Remedy says where to look.
func (e *RolloutError) Remedy() string {
	return fmt.Sprintf("remove the cause and run the command again: it continues here; see also kubectl -n %s describe deployment %s",
		strings.SplitN(e.Deployment, "/", 2)[0], strings.SplitN(e.Deployment, "/", 2)[1])
}

// ExitCode tells a time-out from a failure.
func (e *RolloutError) ExitCode() int {
	if e.TimedOut {
		return report.ExitTimeout
	}
	return report.ExitFailure
}

// rollout waits until the controller's Pods run.
func (in *Installer) rollout(ctx context.Context) error {
	limit := in.Options.RolloutTimeout
	if limit == 0 {
		limit = DefaultRolloutTimeout
	}
	in.Progress.Step("Waiting for the controller's Pods")
	began := in.Clock.Now()
	deadline := in.Clock.After(limit)
	var said string
	var stuckSince time.Time
	for {
		d, pods, newest, err := in.readRollout(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			in.Progress.Fail("")
			return err
		}
		s := judgeRollout(d, pods, newest)
		now := in.Clock.Now()
		if s.Stuck == 0 || s.Available == 0 || s.Available+s.Stuck < s.Wanted {
			stuckSince = now
		}
		switch {
		case s.Done:
			in.Progress.Done("%d running", s.Wanted)
			return nil
		case now.Sub(stuckSince) >= settleTime:
			in.Progress.Warn("%s", strings.Join(s.Problems, "; "))
			in.Progress.Done("%d of %d running; no node can take more now", s.Available, s.Wanted)
			return nil
		case s.GiveUp:
			in.Progress.Fail("")
			return in.rolloutError(ctx, d, s, in.Clock.Since(began), false)
		}
		if text := strings.Join(s.Problems, "; "); text != said && text != "" {
			said = text
			in.Progress.Info("%s", text)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline:
			in.Progress.Fail("")
			return in.rolloutError(ctx, d, s, limit, true)
		case <-in.Clock.After(rolloutPoll):
		}
	}
}

func (in *Installer) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=cloudstack-ccm,app.kubernetes.io/instance=" + in.Options.Release}
}

// readRollout reads the release's Deployment, its Pods, and the hash of the
// newest ReplicaSet.
func (in *Installer) readRollout(ctx context.Context) (*appsv1.Deployment, []corev1.Pod, string, error) {
	ns := in.Cluster.Namespace
	deployments, err := in.Cluster.Kube.AppsV1().Deployments(ns).List(ctx, in.selector())
	if err != nil {
		return nil, nil, "", in.Cluster.Explain(err)
	}
	if len(deployments.Items) == 0 {
		return nil, nil, "", &usageError{
			fmt.Sprintf("release %s has no Deployment labelled app.kubernetes.io/name=cloudstack-ccm", in.Options.Release),
			"check --chart: it must be a chart of cloudstack-ccm",
		}
	}
	d := &deployments.Items[0]
	pods, err := in.Cluster.Kube.CoreV1().Pods(ns).List(ctx, in.selector())
	if err != nil {
		return nil, nil, "", in.Cluster.Explain(err)
	}
	sets, err := in.Cluster.Kube.AppsV1().ReplicaSets(ns).List(ctx, in.selector())
	if err != nil {
		return nil, nil, "", in.Cluster.Explain(err)
	}
	newest := ""
	const revision = "deployment.kubernetes.io/revision"
	for i := range sets.Items {
		if r := sets.Items[i].Annotations[revision]; r != "" && r == d.Annotations[revision] {
			newest = sets.Items[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	return d, pods.Items, newest, nil
}

// rolloutError gathers what explains the failure. The run may be out of time,
// so it has its own.
func (in *Installer) rolloutError(ctx context.Context, d *appsv1.Deployment, s rolloutState, after time.Duration, timedOut bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	e := &RolloutError{Deployment: d.Namespace + "/" + d.Name, After: after, TimedOut: timedOut, State: s.Text, Causes: s.Problems}
	if s.failing != nil {
		events, err := in.Cluster.Kube.CoreV1().Events(d.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + s.failing.Name + ",type=Warning",
		})
		if err == nil {
			for i := range events.Items {
				ev := &events.Items[i]
				if ev.InvolvedObject.Name == s.failing.Name && ev.Type == corev1.EventTypeWarning {
					in.Progress.Warn("Event %s: %s", ev.Reason, in.scrub(ev.Message))
				}
			}
		}
		if in.PodLogs != nil {
			if log, err := in.PodLogs(ctx, s.failing, 10); err == nil && strings.TrimSpace(log) != "" {
				in.Progress.Info("last lines of the log of Pod %s:", s.failing.Name)
				for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
					in.Progress.Info("  %s", in.scrub(line))
				}
			}
		}
	}
	return e
}

// scrub removes the keys from text of others. The controller never writes them;
// this is the second lock.
func (in *Installer) scrub(text string) string {
	for _, secret := range []string{in.config.APIKey, in.config.SecretKey} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
