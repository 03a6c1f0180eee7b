// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout waits for the controller's Deployment or DaemonSet. It does not use Helm's --wait, which considers a
// Deployment without any Pod ready if maxUnavailable equals the number of replicas.
package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
)

// Time limits.
const (
	DefaultTimeout = 5 * time.Minute
	interval       = 500 * time.Millisecond
	// settleTime is how long to wait for Pods that cannot be scheduled if another Pod works, as with more replicas than
	// nodes in a small cluster.
	settleTime = 10 * time.Second
	// endTimeout is how long Pods may take to terminate.
	endTimeout = 2 * time.Minute
	// explainTime limits reading the reasons of a failure.
	explainTime = 15 * time.Second
)

// ErrNoWorkload means that the release has no Deployment or DaemonSet of the controller.
var ErrNoWorkload = errors.New("no Deployment or DaemonSet is labelled app.kubernetes.io/name=cloudstack-ccm")

// Wait waits until the Pods of the release are ready.
func Wait(ctx context.Context, e *engine.Env) error {
	limit := cmp.Or(e.RolloutTimeout, DefaultTimeout)
	e.Progress.Step("Waiting for the controller's Pods")
	var o *cluster.Workload
	var s state
	said, stuckSince, hopelessSince := "", e.Clock.Now(), e.Clock.Now()
	inTime, err := poll.Until(ctx, e.Clock, interval, limit, func() (bool, error) {
		found, pods, err := Read(ctx, e)
		if err != nil {
			return false, err
		}

		now := e.Clock.Now()
		o, s = found, judge(found, pods, missing(ctx, e, pods), now)
		if s.Stuck == 0 || !s.Ready || o.Available+s.Stuck < o.Wanted {
			stuckSince = now
		}
		if !s.Hopeless {
			hopelessSince = now
		}

		problems := strings.Join(s.Problems, "; ")
		switch {
		case s.Done:
			e.Progress.Done("%d running", o.Wanted)
			return true, nil
		case now.Sub(stuckSince) >= settleTime:
			e.Progress.Warn("%s", problems)
			e.Progress.Done("%d of %d running; no node can take more now", o.Available, o.Wanted)
			return true, nil
		case s.GiveUp || now.Sub(hopelessSince) >= settleTime:
			return false, failed(ctx, e, o, s, "does not start", report.ExitFailure)
		}

		if problems != said && problems != "" {
			said = problems
			e.Progress.Info("%s", problems)
		}

		return false, nil
	})

	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && !inTime:
		err = failed(ctx, e, o, s, fmt.Sprintf("did not come up within %s", limit.Round(time.Second)),
			report.ExitTimeout)
	}

	return err
}

// AwaitEnd waits until a workload has no Pods. o selects its Pods in the namespace.
func AwaitEnd(ctx context.Context, e *engine.Env, workload, namespace string, o metav1.ListOptions) error {
	var remaining []corev1.Pod
	ended, err := poll.Until(ctx, e.Clock, interval, endTimeout, func() (_ bool, err error) {
		remaining = cluster.ListOf(ctx, &err, o, e.Cluster.Kube.CoreV1().Pods(namespace).List).Items
		return len(remaining) == 0, err
	})
	if err == nil && !ended {
		//nolint:staticcheck // Pod is a name
		err = fmt.Errorf("Pod %s of %s does not end within %s", remaining[0].Name, workload, endTimeout)
	}
	return err
}

// Read returns the release's workload and its Pods. While an upgrade replaces a Deployment by a DaemonSet, or the
// reverse, it returns the younger of the two.
func Read(ctx context.Context, e *engine.Env) (*cluster.Workload, []corev1.Pod, error) {
	kube, namespace, o := e.Cluster.Kube, e.Cluster.Namespace, cluster.OfRelease(e.Release)
	all, err := cluster.Workloads(ctx, kube, namespace, o)
	if err != nil {
		return nil, nil, err
	}

	all = slices.DeleteFunc(all, func(o cluster.Workload) bool { return o.Meta.DeletionTimestamp != nil })
	if len(all) == 0 {
		return nil, nil, report.Usage(
			"check --chart: it must be a chart of cloudstack-ccm",
			"release %s: %w", e.Release, ErrNoWorkload,
		)
	}

	found := slices.MaxFunc(all, func(a, b cluster.Workload) int {
		return a.Meta.CreationTimestamp.Compare(b.Meta.CreationTimestamp.Time)
	})
	if found.Kind == "Deployment" {
		const revision = "deployment.kubernetes.io/revision"
		for _, r := range cluster.ListOf(ctx, &err, o, kube.AppsV1().ReplicaSets(namespace).List).Items {
			if n := r.Annotations[revision]; n != "" && n == found.Meta.Annotations[revision] {
				found.Newest = r.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
			}
		}
	}

	pods := cluster.ListOf(ctx, &err, o, kube.CoreV1().Pods(namespace).List)
	return &found, pods.Items, err
}

// failed shows Events and log lines that explain the failure, and returns the error. It has its own timeout, because
// that of ctx may have expired.
func failed(ctx context.Context, e *engine.Env, o *cluster.Workload, s state, how string, code int) error {
	e.Progress.Fail("")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()

	first := ""
	if len(s.Problems) > 0 {
		first = "; " + s.Problems[0]
	}

	problem := report.Errorf(
		fmt.Sprintf("remove the cause and run the command again: it continues here; see also kubectl -n %s "+
			"describe %s %s",
			o.Meta.Namespace, strings.ToLower(o.Kind), o.Meta.Name),
		"the controller %s: %d of %d Pods updated, %d available%s", how, o.Updated, o.Wanted, o.Available, first,
	)

	problem.Code = code
	if s.failing == nil {
		return problem
	}

	var err error // ignored: Events only explain the failure
	for _, ev := range cluster.ListOf(ctx, &err, metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + s.failing.Name + ",type=Warning",
	}, e.Cluster.Kube.CoreV1().Events(o.Meta.Namespace).List).Items {
		if ev.InvolvedObject.Name == s.failing.Name && ev.Type == corev1.EventTypeWarning {
			e.Progress.Warn("Event %s: %s", ev.Reason, e.Scrubbed(ev.Message))
		}
	}

	if e.PodLogs != nil {
		if log, err := e.PodLogs(ctx, s.failing, 10); err == nil && strings.TrimSpace(log) != "" {
			e.Progress.Info("last lines of the log of Pod %s:", s.failing.Name)
			for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
				e.Progress.Info("  %s", e.Scrubbed(line))
			}
		}
	}

	return problem
}

// Restart restarts the Pods as kubectl rollout restart does.
func Restart(ctx context.Context, e *engine.Env) error {
	o, _, err := Read(ctx, e)
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`,
		e.Clock.Now().UTC().Format(time.RFC3339))
	return Patch(ctx, e.Cluster.Kube, o.Kind, o.Meta.Namespace, o.Meta.Name, []byte(body))
}

// Patch applies a merge patch to a Deployment or DaemonSet.
func Patch(ctx context.Context, kube kubernetes.Interface, kind, namespace, name string, body []byte) (err error) {
	options := metav1.PatchOptions{FieldManager: "csccm"}
	if kind == "DaemonSet" {
		_, err = kube.AppsV1().DaemonSets(namespace).Patch(ctx, name, types.MergePatchType, body, options)
	} else {
		_, err = kube.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, body, options)
	}
	return err
}

// maxRestarts is the number of restarts after which a Pod that never became ready has failed.
const maxRestarts = 3

// state is the progress of a rollout at one time.
type state struct {
	Done     bool
	Problems []string // problems of Pods, with the reasons
	// Stuck is the number of Pods that cannot be scheduled.
	Stuck  int32
	GiveUp bool // waiting longer will not help
	// Hopeless is like GiveUp, but the state may change soon: an image that is not found, a Secret that is missing, no
	// suitable node.
	Hopeless bool
	Ready    bool // whether a Pod of the newest template works
	failing  *corev1.Pod
}

// Steady is how long a container must run after a restart before its Pod counts as ready. The chart's minReadySeconds
// has the same effect for all Pods, but may be set to less.
const Steady = 10 * time.Second

// judge returns the state of a rollout. missing has the Secrets and ConfigMaps that do not exist but that Pods mount,
// by Pod. judge is a pure function.
func judge(o *cluster.Workload, pods []corev1.Pod, missing map[string]string, now time.Time) state {
	var s state
	// A DaemonSet without a matching node is a problem; a Deployment with 0 replicas is intended.
	nowhere := o.Kind == "DaemonSet" && o.Wanted == 0
	s.Done = o.Observed && o.Updated >= o.Wanted && o.Available >= o.Wanted && o.Old == 0 && !nowhere
	s.GiveUp = o.Observed && nowhere
	switch {
	case s.GiveUp:
		s.Problems = []string{
			"no node matches: see nodeSelector and affinity in the chart's values (without them: " +
				"nodes of the control plane), and tolerations",
		}
	case o.Problem != "":
		s.Problems = []string{o.Problem}
	}

	ending := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	for _, p := range pods {
		if p.DeletionTimestamp != nil || o.Newest != "" && p.Labels[o.PodLabel] != o.Newest {
			continue
		}

		restarted := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.RestartCount > 0 && c.State.Running != nil && now.Sub(c.State.Running.StartedAt.Time) < Steady
		})
		if cluster.PodReady(&p) && !restarted {
			s.Ready = true
			continue
		}

		s.Done = s.Done && !restarted
		problem, unschedulable, failed := podProblem(&p)
		problem = cmp.Or(missing[p.Name], problem)
		if unschedulable {
			s.Stuck++
		}

		lasting := strings.Contains(problem, "Image") || unschedulable && !ending // a terminating Pod may make room
		s.Hopeless = s.Hopeless || missing[p.Name] != "" || lasting && !passing.MatchString(problem)
		if problem != "" {
			s.Problems = append(s.Problems, fmt.Sprintf("Pod %s: %s", p.Name, problem))
			s.failing = &p
		}

		s.GiveUp = s.GiveUp || failed
	}

	// If one Pod works, the problems of the others are caused by their nodes.
	s.GiveUp, s.Hopeless = s.GiveUp && !s.Ready, s.Hopeless && !s.Ready
	slices.Sort(s.Problems)
	return s
}

// passing matches reasons that may be temporary: a registry that is busy, a node that is about to become ready, and
// room that Pods of another controller free when they terminate.
var passing = regexp.MustCompile(`(?i)time-?out|temporar|connection (refused|reset)|too many|\b50[0-9]\b|free ports|insufficient|not-ready|unreachable`)

// missing returns the Secrets and ConfigMaps that do not exist but that Pods which have not started mount, by Pod. It
// ignores what may not be read.
func missing(ctx context.Context, e *engine.Env, pods []corev1.Pod) map[string]string {
	core, out := e.Cluster.Kube.CoreV1(), map[string]string{}
	for _, p := range pods {
		if p.Status.Phase != corev1.PodPending || p.Spec.NodeName == "" {
			continue
		}
		for _, v := range p.Spec.Volumes {
			var err error
			what := ""
			switch {
			case v.Secret != nil && !ptr.Deref(v.Secret.Optional, false):
				what = "Secret " + p.Namespace + "/" + v.Secret.SecretName
				_, err = core.Secrets(p.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			case v.ConfigMap != nil && !ptr.Deref(v.ConfigMap.Optional, false):
				what = "ConfigMap " + p.Namespace + "/" + v.ConfigMap.Name
				_, err = core.ConfigMaps(p.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
			}
			if apierrors.IsNotFound(err) {
				out[p.Name] = what + ", which it mounts, does not exist"
			}
		}
	}

	return out
}

// podProblem returns the reason why a Pod is not ready; "" if it is starting normally.
func podProblem(p *corev1.Pod) (problem string, unschedulable, givenUp bool) {
	problem = cluster.PodWaits(p)
	if p.Status.Phase == corev1.PodFailed {
		problem = strings.TrimSpace(fmt.Sprintf("failed: %s %s", p.Status.Reason, p.Status.Message))
	}

	for _, c := range p.Status.Conditions {
		unschedulable = unschedulable || c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	}

	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil {
			problem = "runs, but is not ready"
			if c.RestartCount > 0 {
				problem = "restarts"
			}
		}

		t := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		switch {
		case t == nil || problem == "":
		case strings.Contains(t.Message, "address already in use"):
			problem = fmt.Sprintf("its port is taken by another program on node %s: free it, or choose another one "+
				"with --set securePort=PORT (%s)",
				p.Spec.NodeName, strings.TrimSpace(t.Message[strings.LastIndex(strings.TrimSpace(t.Message), "\n")+1:]))
		default:
			problem += fmt.Sprintf(" (last exit code %d: %s", t.ExitCode, strings.TrimSpace(t.Message))
			problem = strings.TrimSuffix(problem, ": ") + ")"
		}
		givenUp = givenUp || int(c.RestartCount) >= maxRestarts && c.State.Running == nil
	}

	return problem, unschedulable, givenUp
}
