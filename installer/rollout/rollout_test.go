// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/rollout"
	"github.com/csccm/csccm/installer/testenv/fakecluster"
	"github.com/csccm/csccm/installer/testenv/stepclock"
)

var labels = map[string]string{
	"app.kubernetes.io/name":     "cloudstack-ccm",
	"app.kubernetes.io/instance": "cloudstack-ccm",
}

// meta returns the metadata of an object of the release; minute is the minute of its creation.
func meta(minute int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "kube-system", Name: "ccm", Labels: labels, Generation: 2,
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0).Add(time.Duration(minute) * time.Minute)),
	}
}

// daemonSet returns a DaemonSet with its second Pod template.
func daemonSet(status appsv1.DaemonSetStatus) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: meta(1), Status: status}
	d.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}
	return d
}

// pod returns a Pod of a generation of the DaemonSet's template.
func pod(name, generation string, status corev1.PodStatus) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(1), Spec: corev1.PodSpec{NodeName: "n1"}, Status: status}
	p.Name, p.Labels = name, map[string]string{"pod-template-generation": generation}
	for k, v := range labels {
		p.Labels[k] = v
	}
	return p
}

func env(t *testing.T, objects ...kruntime.Object) (*engine.Env, *bytes.Buffer) {
	t.Helper()
	clock, out := stepclock.New(nil), &bytes.Buffer{}
	return &engine.Env{
		Cluster: fakecluster.New(fake.NewClientset(objects...)), Release: "cloudstack-ccm", Clock: clock,
		Progress: report.NewProgress(out, report.Style{}, clock), RolloutTimeout: time.Minute,
	}, out
}

func TestWaitForDaemonSet(t *testing.T) {
	t.Parallel()
	ready := corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}

	crashes := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		RestartCount: 3,
		State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no such zone"},
		},
	}}}

	const at = 1_700_000_000 // the clock's time at the beginning
	restarted := func(started time.Time) corev1.PodStatus {
		s := *ready.DeepCopy()
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Ready:        true,
			RestartCount: 1,
			State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)},
			},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Message: "I0101 starting\nlisten tcp 0.0.0.0:10258: bind: address already in use\n",
			}},
		}}
		return s
	}

	taken, long := restarted(time.Unix(at, 0).Add(2*time.Minute)), restarted(time.Unix(at, 0).Add(-time.Hour))
	waits := func(reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}}
	}

	unscheduled := corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type:    corev1.PodScheduled,
		Status:  corev1.ConditionFalse,
		Reason:  corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available",
	}}}

	portTaken := *unscheduled.DeepCopy()
	portTaken.Conditions[0].Message = "1 node(s) didn't have free ports"
	mounts := pod("new", "2", waits("ContainerCreating", ""))
	mounts.Spec.Volumes = []corev1.Volume{
		{
			Name: "a",
			VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "extra", Optional: ptr.To(true)},
			},
		},
		{Name: "b", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}},
	}

	ends := pod("old", "1", ready)
	ends.DeletionTimestamp, ends.Finalizers = &metav1.Time{Time: time.Unix(at, 0)}, []string{"a/b"}
	whole := appsv1.DaemonSetStatus{
		ObservedGeneration:     2,
		DesiredNumberScheduled: 3,
		CurrentNumberScheduled: 3,
		UpdatedNumberScheduled: 3,
		NumberAvailable:        3,
	}

	half, unseen := whole, whole
	half.UpdatedNumberScheduled, half.NumberAvailable, unseen.ObservedGeneration = 1, 2, 1
	deployment := func(minute int) *appsv1.Deployment { // a Deployment with two replicas
		d := &appsv1.Deployment{ObjectMeta: meta(minute), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)}}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1}
		return d
	}

	const again = "remove the cause and run the command again: it continues here; see also kubectl -n " +
		"kube-system describe "
	for name, tc := range map[string]struct {
		objects []kruntime.Object
		shown   string // part of the output
		err     string
		remedy  string
	}{
		"runs": {objects: []kruntime.Object{daemonSet(whole)}, shown: "3 running"},
		"change not seen": {
			objects: []kruntime.Object{daemonSet(unseen)},
			err:     "the controller did not come up within 1m0s: 3 of 3 Pods updated, 3 available",
		},
		"half updated": {
			objects: []kruntime.Object{daemonSet(half)},
			err:     "the controller did not come up within 1m0s: 1 of 3 Pods updated, 2 available",
			remedy:  again + "daemonset ccm",
		},
		"the new Pod crashes beside old ones": {
			objects: []kruntime.Object{daemonSet(half), pod("old", "1", ready), pod("new", "2", crashes)},
			err: "the controller does not start: 1 of 3 Pods updated, 2 available; Pod new: CrashLoopBackOff " +
				"(last exit code 1: no such zone)",
		},
		// The program that uses the port answers the probe, so the Pod is ready between two restarts.
		"the port is taken": {
			objects: []kruntime.Object{daemonSet(whole), pod("new", "2", taken)},
			err: "the controller did not come up within 1m0s: 3 of 3 Pods updated, 3 available; Pod new: its port is " +
				"taken by another program on node n1: " +
				"free it, or choose another one with --set securePort=PORT (listen tcp 0.0.0.0:10258: bind: address " +
				"already in use)",
		},
		"a wrong image": {
			objects: []kruntime.Object{daemonSet(half), pod("old", "1", ready),
				pod("new", "2", waits("ErrImagePull", "ccm:nope: not found"))},
			err: "the controller does not start: 1 of 3 Pods updated, 2 available; Pod new: ErrImagePull: " +
				"ccm:nope: not found",
		},
		"a registry that is slow": {
			objects: []kruntime.Object{daemonSet(half),
				pod("new", "2", waits("ErrImagePull", "dial tcp: i/o timeout"))},
			err: "the controller did not come up within 1m0s: 1 of 3 Pods updated, 2 available; Pod new: " +
				"ErrImagePull: dial tcp: i/o timeout",
		},
		"a Secret that is missing": {
			objects: []kruntime.Object{daemonSet(half), mounts},
			err: "the controller does not start: 1 of 3 Pods updated, 2 available; Pod new: Secret " +
				"kube-system/keys, which it mounts, does not exist",
		},
		"no node fits the new Pod": {
			objects: []kruntime.Object{daemonSet(half), pod("old", "1", ready), pod("new", "2", unscheduled)},
			err: "the controller does not start: 1 of 3 Pods updated, 2 available; Pod new: not scheduled: 0/3 " +
				"nodes are available",
		},
		"another program has the port": { // it may be the controller that is being replaced, which ends soon
			objects: []kruntime.Object{daemonSet(half), pod("new", "2", portTaken)},
			err: "the controller did not come up within 1m0s: 1 of 3 Pods updated, 2 available; Pod new: not " +
				"scheduled: 1 node(s) didn't have free ports",
		},
		"the new Pod waits for the end of the old one": {
			objects: []kruntime.Object{daemonSet(half), ends, pod("new", "2", unscheduled)},
			err: "the controller did not come up within 1m0s: 1 of 3 Pods updated, 2 available; Pod new: not " +
				"scheduled: 0/3 nodes are available",
		},
		"restarted long ago": {objects: []kruntime.Object{daemonSet(whole), pod("new", "2", long)}, shown: "3 running"},
		"an old Pod crashes": {
			objects: []kruntime.Object{daemonSet(half), pod("old", "1", crashes), pod("new", "2", ready)},
			err:     "the controller did not come up within 1m0s: 1 of 3 Pods updated, 2 available",
		},
		"no matching node": {
			objects: []kruntime.Object{daemonSet(appsv1.DaemonSetStatus{ObservedGeneration: 2})},
			err: "the controller does not start: 0 of 0 Pods updated, 0 available; no node matches: " +
				"see nodeSelector and affinity in the chart's values (without them: nodes of the control plane), and " +
				"tolerations",
		},
		"instead of a Deployment": {objects: []kruntime.Object{deployment(0), daemonSet(whole)}, shown: "3 running"},
		"before a Deployment": {
			objects: []kruntime.Object{daemonSet(whole), deployment(2)},
			err:     "the controller did not come up within 1m0s: 2 of 2 Pods updated, 1 available",
			remedy:  again + "deployment ccm",
		},
		"one replica more than nodes": {
			objects: []kruntime.Object{deployment(0), pod("a", "1", ready),
				pod("b", "1", corev1.PodStatus{Conditions: []corev1.PodCondition{{
					Type:    corev1.PodScheduled,
					Status:  corev1.ConditionFalse,
					Reason:  corev1.PodReasonUnschedulable,
					Message: "no free port",
				}}})},
			shown: "1 of 2 running; no node can take more now",
		},
		"neither": {
			err: "release cloudstack-ccm: no Deployment or DaemonSet is labelled " +
				"app.kubernetes.io/name=cloudstack-ccm",
			remedy: "check --chart: it must be a chart of cloudstack-ccm",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, out := env(t, tc.objects...)
			err := rollout.Wait(t.Context(), e)
			require.Contains(t, out.String(), tc.shown)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.err)
			if tc.remedy != "" {
				var r interface{ Remedy() string }
				require.ErrorAs(t, err, &r)
				require.Equal(t, tc.remedy, r.Remedy())
			}
		})
	}
}

// Restart sets the template's annotation as kubectl rollout restart does, so the Pods are replaced by the update
// strategy.
func TestRestart(t *testing.T) {
	t.Parallel()
	e, _ := env(t, daemonSet(appsv1.DaemonSetStatus{}))
	require.NoError(t, rollout.Restart(t.Context(), e))
	d, err := e.Cluster.Kube.AppsV1().DaemonSets("kube-system").Get(t.Context(), "ccm", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"kubectl.kubernetes.io/restartedAt": "2023-11-14T22:13:20Z"},
		d.Spec.Template.Annotations)
}
