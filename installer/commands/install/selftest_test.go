// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/leftby"
)

const testPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x-self-test}\nspec: {containers: [{name: x}]}"

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

func TestInstallTestsItselfInTheCluster(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	in := e.installer(t, e.keys(t))
	e.testing(corev1.PodSucceeded, "ok       API       takes the keys\nwarning  role      may not list zones\n")
	require.NoError(t, in.Run(t.Context()), e.Stderr.String())
	require.Contains(t, e.Stderr.String(), "self-test in the cluster: passed in Pod x-self-test on node n1")
	require.Contains(t, e.Stderr.String(), "API: takes the keys")
	require.Contains(t, e.Stderr.String(), "role: may not list zones")
	pods, err := e.Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)
}

// What does not work in the cluster is found before anybody's place is taken.
func TestInstallWhoseSelfTestFails(t *testing.T) {
	t.Parallel()
	e, notes := takenEnv(t, leftby.Apache, leftby.ApacheObjects()...)
	e.testing(corev1.PodFailed, "failed             no such host\nfix                correct the cluster's DNS\n")
	err := e.installer(t, e.taking(t)).Run(t.Context())
	testenv.RequireRefusal(t, err, "no such host", "correct the cluster's DNS", 3)
	require.NotContains(t, notes(), "patch deployments", "the old controller goes on")

	// Left out, the install completes.
	o := e.taking(t)
	o.SkipSelfTest = true
	e.install(t, o)
}
