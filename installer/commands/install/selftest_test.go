// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/installer/testenv/stepclock"
	"github.com/csccm/csccm/pkg/selftest"
)

const testPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x-self-test, annotations: {helm.sh/hook: test}}\nspec: " +
	"{containers: [{name: x}]}"

// testing makes the chart's test Pod end in a phase, with a log.
func (e *env) testing(phase corev1.PodPhase, log string) {
	e.Releases.Tests = []string{testPod}
	e.Kube.PrependReactor("create", "pods", func(a ktesting.Action) (bool, kruntime.Object, error) {
		create, _ := a.(ktesting.CreateAction)
		if p, _ := create.GetObject().(*corev1.Pod); p != nil {
			p.Status.Phase, p.Spec.NodeName = phase, "n1"
		}
		return false, nil, nil
	})
	e.PodLogs = func(context.Context, *corev1.Pod, int64) (string, error) { return log, nil }
}

// A failed self-test ends the install before another controller is stopped.
func TestInstallWhoseSelfTestFails(t *testing.T) {
	t.Parallel()
	e, notes := takenEnv(t, leftby.Apache, leftby.ApacheObjects()...)
	e.testing(corev1.PodFailed, "failed             no such host\nfix                correct the cluster's DNS\n")
	err := e.installer(t, e.taking(t)).Run(t.Context())
	testenv.RequireRefusal(t, err, "no such host", "correct the cluster's DNS", 3)
	require.NotContains(t, notes(), "patch deployments", "the old controller goes on")

	// Without the self-test, the install completes.
	o := e.taking(t)
	o.SkipSelfTest = true
	e.install(t, o)
}

const manifest = `apiVersion: v1
kind: Pod
metadata: {name: x-self-test, annotations: {helm.sh/hook: test}}
spec: {restartPolicy: Never, containers: [{name: self-test, image: x}]}`

// The result describes how the test Pod ended, and the Pod is always deleted.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	ended := func(phase corev1.PodPhase, code int32) corev1.PodStatus {
		return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}},
		}}}
	}

	var good, bad bytes.Buffer
	good.WriteString(selftest.Line(selftest.MarkOK, "API", "accepts the keys"))
	good.WriteString(selftest.Line(selftest.MarkWarning, "role", "may not list zones"))
	bad.WriteString(selftest.Line(selftest.MarkFailed, "", "the server does not\naccept canary") +
		selftest.Line(selftest.MarkFix, "", "check both keys"))
	for name, c := range map[string]struct {
		status corev1.PodStatus
		log    string
		refuse bool
		lost   bool // the connection to the API server is lost
		stays  bool // Pods remain after their deletion
		passed string
		err    string
		remedy string
		said   string
	}{
		"passes": {
			status: ended(corev1.PodSucceeded, 0),
			log:    "I0101 some line\n" + good.String(),
			passed: "Pod x-self-test on node n1",
			said:   "API: accepts the keys\n  warn role: may not list zones",
		},
		"fails": {
			status: ended(corev1.PodFailed, 1),
			log:    bad.String(),
			err:    "the self-test in Pod x-self-test on node n1 failed: the server does not accept ***",
			remedy: "check both keys",
		},
		"fails without a word": {
			status: ended(corev1.PodFailed, 137),
			err:    "ended (last exit code 137: Error)",
			remedy: "--skip-self-test",
		},
		"fails in words of its own": {
			status: ended(corev1.PodFailed, 2),
			log:    "panic: canary\n",
			err:    "last exit code 2: Error): panic: ***",
			remedy: "--skip-self-test",
		},
		"is over its time": {
			status: corev1.PodStatus{
				Phase:   corev1.PodFailed,
				Message: "Pod was active on the node longer than the specified deadline",
			},
			err:    "longer than the specified deadline",
			remedy: "again",
		},
		"cannot be watched": {lost: true, said: "the self-test did not run: connection refused"},
		"is not allowed":    {refuse: true, said: "the self-test did not run: no quota"},
		"finds no node": {
			status: pending("0/1 nodes are available"),
			said:   "did not end within 2m0s: not scheduled: 0/1 nodes are available",
		},
		"has no image": {status: waiting(), said: "within 2m0s: ErrImagePull: no such image"},
		"of a killed run never ends": {
			stays: true,
			said: "the self-test did not run: the Pod x-self-test is being deleted and does not end within 2m0s; " +
				"`kubectl -n kube-system delete pod x-self-test --force` removes it",
		},
		"hangs without any message.": {
			status: corev1.PodStatus{Phase: corev1.PodRunning},
			said:   "within 2m0s: it runs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// the test Pod of a killed run
			left := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x-self-test"}}
			kube := fake.NewClientset(left)
			kube.PrependReactor("create", "pods", func(a ktesting.Action) (bool, kruntime.Object, error) {
				if c.refuse {
					return true, nil, errors.New("no quota")
				}
				create, _ := a.(ktesting.CreateAction)
				pod, _ := create.GetObject().(*corev1.Pod)
				pod.Status, pod.Spec.NodeName = c.status, "n1"
				return false, nil, nil
			})

			if c.lost {
				kube.PrependReactor("get", "pods", func(ktesting.Action) (bool, kruntime.Object, error) {
					return true, nil, errors.New("connection refused")
				})
			}

			kube.PrependReactor("delete", "pods",
				func(ktesting.Action) (bool, kruntime.Object, error) { return c.stays, nil, nil })
			clock := stepclock.New(nil)
			var said bytes.Buffer
			passed, err := (&run{Env: &engine.Env{
				Cluster:  fakecluster.New(kube),
				Clock:    clock,
				Progress: report.NewProgress(&said, report.Style{}, clock),
				PodLogs:  func(context.Context, *corev1.Pod, int64) (string, error) { return c.log, nil },
				Scrub:    func(s string) string { return strings.ReplaceAll(s, "canary", "***") },
			}}).runTest(t.Context(), manifest)

			pods, lerr := kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, lerr)
			require.Equal(t, c.stays, len(pods.Items) > 0)
			require.Contains(t, said.String(), c.said)
			if c.stays {
				require.Contains(t, said.String(), "Pod x-self-test of the self-test stays")
			}

			if c.err == "" {
				require.NoError(t, err)
				require.Equal(t, c.passed, passed)
				return
			}

			require.ErrorContains(t, err, c.err)
			var failed *report.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, 3, failed.ExitCode())
			require.Contains(t, failed.Remedy(), c.remedy)
		})
	}
}

func pending(why string) corev1.PodStatus {
	return corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: why}},
	}
}

func waiting() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"},
		},
	}}}
}

// An interrupt (^C) ends the wait, and the Pod is still deleted.
func TestSelfTestInterrupted(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset()
	clock := stepclock.New(nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("^C")
	kube.PrependReactor("get", "pods",
		func(ktesting.Action) (bool, kruntime.Object, error) { cancel(why); return false, nil, nil })
	_, err := (&run{
		Env: &engine.Env{Cluster: fakecluster.New(kube), Clock: clock, Progress: report.NoProgress()},
	}).runTest(ctx, manifest)
	require.ErrorIs(t, err, why)
	pods, err := kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)
}
