// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/stepclock"
)

func ended(message string, code int32) corev1.PodStatus {
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: message, ExitCode: code, Reason: "Completed"},
		},
	}}}
}

// runs returns a clientset that gives each new Pod the status for its node.
func runs(t *testing.T, status map[string]corev1.PodStatus) *fake.Clientset {
	t.Helper()
	kube := fake.NewClientset()
	kube.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		p := a.(ktesting.CreateAction).GetObject().(*corev1.Pod)
		s, known := status[p.Spec.NodeName]
		if !known {
			return true, nil, errors.New(`pods is forbidden: violates PodSecurity "restricted"`)
		}
		p.Status = s
		return false, nil, nil
	})
	return kube
}

func TestProbePods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status corev1.PodStatus
		want   Verdict
		reason string
	}{
		"external": {ended("--cloud-provider=external\n--node-ip=10.1.1.21\nkubelet found: yes\n", 0), External,
			"Pod: --cloud-provider=external"},
		"two-args": {ended("-cloud-provider\nexternal\n--\nkubelet found: yes\n", 0), External,
			"probe Pod: --cloud-provider=external"},
		"without": {ended("kubelet found: yes\n", 0), NotExternal, `probe Pod: --cloud-provider=""`},
		"other": {ended("--cloud-provider=aws\nkubelet found: yes\n", 0), NotExternal,
			`probe Pod: --cloud-provider="aws"`},
		"k3s":    {ended("kubelet found: no\n", 0), Unknown, "no process is named kubelet"},
		"broken": {ended("", 127), Unknown, "failed: exit code 127"},
		"evicted": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "disk full"}, Unknown,
			"Evicted disk full"},
		"refused": {corev1.PodStatus{}, Unknown, "PodSecurity"},
		"known":   {corev1.PodStatus{}, External, "provided-node-ip"}, // nodes with a verdict are not probed
	}

	var nodes []corev1.Node
	status := map[string]corev1.PodStatus{}
	for name, tt := range tests {
		n := newNode(name)
		if tt.status.Phase != "" {
			status[name] = tt.status
		}
		if name == "known" {
			n.Annotations["alpha.kubernetes.io/provided-node-ip"] = "10.1.1.21"
		}
		nodes = append(nodes, n)
	}

	kube := runs(t, status)
	for _, v := range Verify(t.Context(), fakecluster.New(kube), nodes, &ProbeOptions{Image: "busybox:1"}) {
		require.Equal(t, tests[v.Node].want, v.Verdict, "%+v", v)
		require.Contains(t, v.Reason(), tests[v.Node].reason, v.Node)
	}

	left, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items, "all probe Pods are deleted")
}

func TestProbeThatNeverEnds(t *testing.T) {
	t.Parallel()
	pulling := corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
		},
	}}}
	kube := runs(t, map[string]corev1.PodStatus{"n": pulling})
	a := probe(t.Context(), fakecluster.New(kube), ProbeOptions{Image: "i", Clock: stepclock.New(nil)}, "n")
	require.Equal(t, timedOut.at(sourceProbe, "ImagePullBackOff: no such image"), a)

	// After ^C the Pod is deleted too.
	ctx, cancel := context.WithCancel(t.Context())
	a = probe(ctx, fakecluster.New(kube), ProbeOptions{Image: "i", Clock: stepclock.New(cancel)}, "n")
	require.Equal(t, timedOut.at(sourceProbe, ""), a)
	left, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items)
}

// The Pod uses hostPID and no privileges.
func TestProbePodIsHarmless(t *testing.T) {
	t.Parallel()
	p := probePod("kube-system", "n", "busybox:1")
	require.Equal(t, "n", p.Spec.NodeName)
	require.True(t, p.Spec.HostPID)
	require.InDelta(t, probeLimit.Seconds(), *p.Spec.ActiveDeadlineSeconds, 0)
	require.False(t, p.Spec.HostNetwork)
	require.Empty(t, p.Spec.Volumes)
	require.False(t, *p.Spec.AutomountServiceAccountToken)
	s := p.Spec.Containers[0].SecurityContext
	require.Nil(t, s.Privileged)
	require.True(t, *s.RunAsNonRoot)
	require.Equal(t, []corev1.Capability{"ALL"}, s.Capabilities.Drop)
}

// The script is run on this machine: it finds a process named kubelet, and prints only the relevant flag.
func TestProbeScript(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh")
	}
	dir := t.TempDir()
	script := strings.NewReplacer("/proc/", dir+
		"/proc/", "/dev/termination-log", dir+"/log").Replace(probePod("", "", "").Spec.Containers[0].Command[2])
	setup := "mkdir -p " + dir + "/proc/1 " + dir + "/proc/77 && echo init >" + dir + "/proc/1/comm && echo kubelet >" +
		dir + "/proc/77/comm && " +
		`printf '/usr/bin/kubelet\000--kubeconfig=/etc/secret-canary\000--cloud-provider\000external\000--node-ip=10.0.0.1\000--v=2\000' >` + dir + "/proc/77/cmdline\n"
	// #nosec G204 -- the script under test
	out, err := exec.CommandContext(t.Context(), sh, "-c", setup+script+"\ncat "+dir+"/log").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, fromFlags(sourceProbe, map[string]string{"cloud-provider": "external"}), parseProbe(string(out)))
	require.NotContains(t, string(out), "10.0.0.1")
	require.NotContains(t, string(out), "canary")
}
