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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

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
	said, since := "", e.Clock.Now()
	inTime, err := poll.Until(ctx, e.Clock, interval, limit, func() (bool, error) {
		found, pods, err := Read(ctx, e)
		if err != nil {
			return false, err
		}

		now, first := e.Clock.Now(), o == nil
		o, s = found, judge(found, pods, refusals(ctx, e, pods), now)
		if first && s.Hopeless {
			// It failed before this command, and Kubernetes tries again only after minutes. New Pods show whether the
			// cause is gone.
			return false, Restart(ctx, e)
		}

		stuck := s.Ready && s.Stuck > 0 && o.Available+s.Stuck >= o.Wanted
		if !stuck && !s.Hopeless {
			since = now
		}

		problems := strings.Join(s.Problems, "; ")
		switch {
		case s.Done:
			e.Progress.Done("%d running", o.Wanted)
			return true, nil
		case now.Sub(since) < settleTime:
		case stuck:
			e.Progress.Warn("%s", problems)
			e.Progress.Done("%d of %d running; no node can take more now", o.Available, o.Wanted)
			return true, nil
		default:
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

	pods := cluster.ListOf(ctx, &err, o, kube.CoreV1().Pods(namespace).List).Items
	if found.Kind == "DaemonSet" && len(pods) < int(found.Wanted) { // the status of a Deployment has the reason
		found.Problem = refusal(ctx, e, found.Meta)
	}
	return &found, pods, err
}

// refusal returns the message of the newest Event about an object if it is a warning; "" if it is not, or may not be
// read.
func refusal(ctx context.Context, e *engine.Env, of metav1.Object) string {
	var err error // ignored: Events only explain a failure
	var newest corev1.Event
	o := metav1.ListOptions{FieldSelector: "involvedObject.name=" + of.GetName()}
	for _, ev := range cluster.ListOf(ctx, &err, o, e.Cluster.Kube.CoreV1().Events(of.GetNamespace()).List).Items {
		// Of two in the same second the warning came first.
		age := cmp.Or(newest.LastTimestamp.Compare(ev.LastTimestamp.Time), cmp.Compare(ev.Type, newest.Type))
		if ev.InvolvedObject.Name == of.GetName() && age <= 0 {
			newest = ev
		}
	}
	if newest.Type != corev1.EventTypeWarning {
		return ""
	}
	return e.Scrubbed(newest.Message)
}

// failed shows an Event and log lines that explain the failure, and returns the error. It has its own timeout, because
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

	if why := refusal(ctx, e, s.failing); why != "" {
		e.Progress.Warn("Event: %s", why)
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
	Stuck int32
	// Hopeless means that waiting does not help unless the state changes soon: an image that is not found, a Secret
	// that is missing, no suitable node, Pods that the API server refuses.
	Hopeless bool
	Ready    bool // whether a Pod of the newest template works
	failing  *corev1.Pod
}

// Steady is how long a container must run after a restart before its Pod counts as ready. The chart's minReadySeconds
// has the same effect for all Pods, but may be set to less.
const Steady = 10 * time.Second

// judge returns the state of a rollout. refused has why Pods do not start, by Pod. judge is a pure function.
func judge(o *cluster.Workload, pods []corev1.Pod, refused map[string]string, now time.Time) state {
	var s state
	ending := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	// A DaemonSet without a matching node is a problem; a Deployment with 0 replicas is intended.
	nowhere := o.Kind == "DaemonSet" && o.Wanted == 0
	s.Done = o.Observed && o.Updated >= o.Wanted && o.Available >= o.Wanted && o.Old == 0 && !nowhere

	problem := o.Problem
	if nowhere && o.Observed {
		problem = "no node matches: see nodeSelector and affinity in the chart's values (without them: " +
			"nodes of the control plane), and tolerations"
	}
	if problem != "" {
		s.Problems = []string{problem}
		s.Hopeless = lasts(problem) && !ending // a terminating Pod may make room
	}

	for _, p := range pods {
		if p.DeletionTimestamp != nil || o.Newest != "" && p.Labels[o.PodLabel] != o.Newest {
			continue
		}

		restarted, crashes := false, false
		for _, c := range p.Status.ContainerStatuses {
			run := c.State.Running
			restarted = restarted || c.RestartCount > 0 && run != nil && now.Sub(run.StartedAt.Time) < Steady
			crashes = crashes || c.RestartCount >= maxRestarts && run == nil
		}

		if cluster.PodReady(&p) && !restarted {
			s.Ready = true
			continue
		}

		s.Done = s.Done && !restarted
		problem := cmp.Or(cluster.PodProblem(&p), refused[p.Name])
		unschedulable := strings.HasPrefix(problem, "not scheduled")
		if unschedulable {
			s.Stuck++
		}

		waits := p.Status.Phase == corev1.PodPending && lasts(problem) && (!unschedulable || !ending)
		s.Hopeless = s.Hopeless || crashes || waits
		if problem != "" {
			s.Problems = append(s.Problems, fmt.Sprintf("Pod %s: %s", p.Name, problem))
			s.failing = &p
		}
	}

	s.Hopeless = s.Hopeless && !s.Ready // if one Pod works, the problems of the others are caused by their nodes
	slices.Sort(s.Problems)
	return s
}

// passing matches reasons that may be temporary: a registry that is busy, a node or its network that is about to become
// ready, a webhook that starts, room that Pods of another controller free when they terminate, and a crash.
var passing = regexp.MustCompile(`(?i)time-?out|timed out|temporar|connection (refused|reset)|too many|\b50[0-9]\b|` +
	`free ports|insufficient|not.ready|not registered|sandbox|no endpoints|unreachable|CrashLoopBackOff`)

// lasts reports whether there is a problem that does not end by waiting.
func lasts(problem string) bool { return problem != "" && !passing.MatchString(problem) }

// refusals returns why Pods that are on a node do not start, by Pod: their status does not say that a volume cannot be
// mounted.
func refusals(ctx context.Context, e *engine.Env, pods []corev1.Pod) map[string]string {
	out := map[string]string{}
	for i := range pods {
		if p := &pods[i]; p.Status.Phase == corev1.PodPending && p.Spec.NodeName != "" {
			out[p.Name] = refusal(ctx, e, p)
		}
	}
	return out
}
