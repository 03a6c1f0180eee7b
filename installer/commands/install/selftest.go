// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/poll"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/takeover"
	"github.com/csccm/csccm/pkg/selftest"
)

// Times of a self-test.
const (
	testTime    = 2 * time.Minute // how long the Pod may take, from its creation to its end
	testPoll    = 250 * time.Millisecond
	removalTime = 20 * time.Second
	accountTime = 10 * time.Second // how long the ServiceAccount of a new namespace may take to appear
)

// selfTest runs the new controller's program in a Pod in the cluster, with its Secret, proxy and certificates, to test
// that it can make the API calls it needs. It runs before another controller is stopped and before any node is changed.
// The Pod is the test Pod of the chart, which helm test runs too.
func (r *run) selfTest(ctx context.Context) error {
	if r.SkipSelfTest {
		return nil
	}

	r.Progress.Step("The controller's self-test in the cluster")

	result := "not run"
	request := r.request
	request.Tests = true
	rendered, err := r.Render(ctx, request)
	if err != nil {
		return err
	}

	for manifest := range strings.SplitSeq(rendered, "\n---") {
		where, err := r.runTest(ctx, manifest)
		if err != nil {
			return err
		}

		if where != "" {
			result = "passed in " + where
		}
	}

	r.Note("%s", result)
	r.Progress.Done("%s", result)
	return nil
}

// runTest runs the Pod of a chart's test to its end, shows the results, and always deletes the Pod. passed says where
// the Pod ran. passed is "" if the manifest is not a test, or if the Pod did not run to its end. The latter is a
// warning, and an error only in a takeover, which stops the old controller first.
func (r *run) runTest(ctx context.Context, manifest string) (passed string, err error) {
	var object metav1.PartialObjectMetadata
	if yaml.Unmarshal([]byte(manifest), &object) != nil ||
		object.Kind != "Pod" ||
		object.Annotations["helm.sh/hook"] != "test" {
		return "", nil
	}

	pod := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(manifest), pod); err != nil {
		return "", fmt.Errorf("the chart's test: %w", err)
	}

	pod.Namespace = r.Cluster.Namespace

	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
		defer cancel()
		if err := r.removePod(rctx, pod.Name, removalTime); err != nil {
			r.Progress.Warn("Pod %s of the self-test stays: %v", pod.Name, err)
		}
	}()

	pod, why := r.runToEnd(ctx, pod)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}

	if why != "" && r.order != nil && r.order.Order == takeover.OldFirst {
		return "", report.Errorf(
			"remove the cause and run the command again (or leave the self-test out with --skip-self-test)",
			"the self-test did not run: %s; nothing has replaced the old controller, which would be stopped before "+
				"csccm's starts", r.Scrubbed(why),
		)
	}

	if why != "" {
		r.Progress.Warn("the self-test did not run: %s", r.Scrubbed(why))
		return "", nil
	}

	log, err := r.PodLogs(ctx, pod, 200)
	log = strings.TrimSpace(r.Scrubbed(log))
	problem, fix := showTest(r.Progress, log)
	where := fmt.Sprintf("Pod %s on node %s", pod.Name, pod.Spec.NodeName)
	if pod.Status.Phase == corev1.PodSucceeded {
		return where, nil
	}

	if problem == "" { // the program ended before it could log the problem
		problem = cmp.Or(cluster.PodProblem(pod), "it failed")
		if err != nil {
			log = err.Error()
		}

		problem = strings.TrimSuffix(problem+": "+log[strings.LastIndex(log, "\n")+1:], ": ")
	}

	return "", report.CheckFailed(
		cmp.Or(fix,
			"remove the cause and run the command again: it continues here (or leave the self-test out with "+
				"--skip-self-test)"),
		"the self-test in %s failed: %s", where, problem,
	)
}

// runToEnd creates the Pod, and returns it once it has ended. If the Pod does not end, why is the reason.
func (r *run) runToEnd(ctx context.Context, pod *corev1.Pod) (ended *corev1.Pod, why string) {
	pods, inTime := r.Cluster.Kube.CoreV1().Pods(pod.Namespace), false

	// A Pod of that name may exist from a run that was killed, or from helm test.
	err := r.removePod(ctx, pod.Name, testTime)
	if err == nil {
		// Kubernetes creates the ServiceAccount of a new namespace a moment after the namespace.
		_, _ = poll.Until(ctx, r.Clock, testPoll, accountTime, func() (bool, error) {
			_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
			return !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "service account"), nil
		})
	}

	if err == nil {
		inTime, err = poll.Until(ctx, r.Clock, testPoll, testTime, func() (_ bool, err error) {
			ended, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
			why = cluster.PodProblem(ended)
			return cluster.Ended(ended.Status.Phase), err
		})
	}

	switch {
	case err != nil:
		return pod, err.Error()
	case !inTime:
		return pod, fmt.Sprintf("Pod %s did not end within %s: %s", pod.Name, testTime, cmp.Or(why, "it runs"))
	}

	return ended, ""
}

// removePod deletes a Pod and waits until it no longer exists. A Pod on a node that is down exists until the node is
// back.
func (r *run) removePod(ctx context.Context, name string, limit time.Duration) error {
	inTime, err := poll.Until(ctx, r.Clock, testPoll, limit, func() (bool, error) {
		err := r.Cluster.Kube.CoreV1().Pods(r.Cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})

	if err == nil && !inTime {
		err = fmt.Errorf("the Pod %s is being deleted and does not end within %s; `kubectl -n %s delete pod %s "+
			"--force` removes it", name, limit, r.Cluster.Namespace, name)
	}

	return err
}

// showTest shows the results in the output of a self-test, and returns its problem and fix if it failed. It ignores
// other lines.
func showTest(p *report.Progress, text string) (problem, fix string) {
	for line := range strings.SplitSeq(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		subject, what, _ := strings.Cut(rest, " ")

		switch mark {
		case selftest.MarkOK:
			p.Info("%s: %s", subject, strings.TrimSpace(what))
		case selftest.MarkWarning:
			p.Warn("%s: %s", subject, strings.TrimSpace(what))
		case selftest.MarkFailed:
			problem = rest
		case selftest.MarkFix:
			fix = rest
		}
	}

	return problem, fix
}
