// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPod runs a Pod from its Deployment to its deletion: scheduler, process, probes,
// logs, change of its Secret, restart.
func TestPod(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := startNode(t, Options{Name: "worker", Address: "10.1.2.7", Joined: true, Labels: map[string]string{"pool": "guests"}})
	ns := namespace(t)
	if _, err := env.client.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "config"}, StringData: map[string]string{"key": "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := guestPod()
	replicas := int32(2)
	labels := map[string]string{"app": "guest"}
	if _, err := env.client.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "guest"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deployment is available", func() bool {
		d, err := env.client.AppsV1().Deployments(ns).Get(ctx, "guest", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 2
	})
	pods, err := env.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 2 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	pod := &pods.Items[0]
	if other := pods.Items[1].Status.PodIP; pod.Status.PodIP == other {
		t.Errorf("both replicas have the address %s", other)
	}
	if pod.Status.HostIP != "10.1.2.7" || pod.Status.Phase != corev1.PodRunning || pod.Status.ContainerStatuses[0].ImageID == "" {
		t.Errorf("status %+v", pod.Status)
	}

	r := guestReportOf(t, pod)
	if r.UID != 65532 || r.Dir != "/" || r.WritableRoot || slices.Contains(r.Root, "proc") {
		t.Errorf("container sees uid %d, dir %s, root %v, writable %t", r.UID, r.Dir, r.Root, r.WritableRoot)
	}
	for _, want := range []string{"POD_IP=" + pod.Status.PodIP, "POD_NAME=" + pod.Name, "NODE=worker", "FROM_SECRET=one", "GREETING=hello " + pod.Name + " $(UNKNOWN) $(POD_IP)",
		fmt.Sprintf("KUBERNETES_SERVICE_PORT=%d", env.plane.Port)} {
		if !slices.Contains(r.Env, want) {
			t.Errorf("environment has no %s: %q", want, r.Env)
		}
	}
	if r.Files["/etc/guest/key"] != "one" || strings.Count(r.Files["/var/run/secrets/kubernetes.io/serviceaccount/token"], ".") != 2 ||
		r.Files["/var/run/secrets/kubernetes.io/serviceaccount/namespace"] != ns || !strings.Contains(r.Files["/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"], "BEGIN CERTIFICATE") {
		t.Errorf("volumes: %q", r.Files)
	}

	one := int64(1)
	log, err := env.client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: &one}).DoRaw(ctx)
	if err != nil || string(log) != "guest starts\n" {
		t.Errorf("log %q, %v", log, err)
	}
	if _, err := env.client.CoreV1().Secrets(ns).Patch(ctx, "config", "application/merge-patch+json", []byte(`{"stringData":{"key":"two"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the changed Secret reaches the container", func() bool { return guestReportOf(t, pod).Files["/etc/guest/key"] == "two" })

	// The node restores the Ready condition after the node lifecycle controller has set it to False, which happens when
	// heartbeats are late.
	unready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	if _, err := env.client.CoreV1().Pods(ns).Patch(ctx, pod.Name, types.StrategicMergePatchType, unready, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Pod is ready again", func() bool { return podReady(getPod(t, ns, pod.Name)) })

	guestGet(t, pod, "unready")
	eventually(t, "an unready Pod is seen", func() bool { return !podReady(getPod(t, ns, pod.Name)) })
	guestGet(t, pod, "sick")
	eventually(t, "a sick container is restarted", func() bool {
		p := getPod(t, ns, pod.Name)
		s := p.Status.ContainerStatuses[0]
		return s.RestartCount == 1 && podReady(p) && s.LastTerminationState.Terminated != nil
	})

	pid, ok := n.PodPID(ns, pod.Name)
	if !ok {
		t.Fatal("the node reports no process of the Pod")
	}
	require.NoError(t, env.client.CoreV1().Pods(ns).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
	eventually(t, "the Pod is gone", func() bool {
		_, err := env.client.CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Error("the process of the deleted Pod still runs")
	}
	eventually(t, "the Deployment replaces it", func() bool {
		d, err := env.client.AppsV1().Deployments(ns).Get(ctx, "guest", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 2
	})
}

func TestPodsThatCannotRun(t *testing.T) {
	t.Parallel()
	startNode(t, Options{Name: "picky", Address: "10.1.2.8", Joined: true})
	ns := namespace(t)
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		reason string
		text   string
	}{
		"image": {func(s *corev1.PodSpec) { s.Containers[0].Image = "nginx:1" }, "ErrImageNeverPull", "run only: " + guestImage + "; not nginx:1"},
		"init":  {func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", Image: guestImage}} }, "CreateContainerConfigError", "no init containers"},
		"two": {func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, corev1.Container{Name: "b", Image: guestImage})
		}, "CreateContainerConfigError", "one container, not of 2"},
		"hostpath": {func(s *corev1.PodSpec) {
			s.Volumes = append(s.Volumes, corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}, "CreateContainerConfigError", "h is none of these"},
		"root":      {func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.RunAsUser = new(int64) }, "CreateContainerConfigError", "non-root policy"},
		"no-secret": {func(s *corev1.PodSpec) { s.Volumes[0].Secret.SecretName = "absent" }, "ContainerCreating", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := guestPod()
			spec.NodeName, spec.NodeSelector = "picky", nil
			spec.Volumes[0].Secret.SecretName = "config"
			c.change(&spec)
			if _, err := env.client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, c.reason, func() bool {
				p := getPod(t, ns, name)
				if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
					return false
				}
				w := p.Status.ContainerStatuses[0].State.Waiting
				return p.Status.Phase == corev1.PodPending && w.Reason == c.reason && strings.Contains(w.Message, c.text)
			})
			eventually(t, "an Event says why", func() bool {
				events, err := env.client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",type=Warning"})
				return err == nil && len(events.Items) > 0
			})
		})
	}
}

// TestPodWithoutSandbox checks that the program finds its volumes on machines that
// allow no user namespaces.
func TestPodWithoutSandbox(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{Name: "plain", Address: "10.1.2.10", Joined: true})
	n.plain.Store(true)
	ns := namespace(t)
	if _, err := env.client.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "config"}, StringData: map[string]string{"key": "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := guestPod()
	spec.NodeName, spec.NodeSelector = "plain", nil
	pod, err := env.client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "guest"}, Spec: spec}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the Pod is ready", func() bool { pod = getPod(t, ns, "guest"); return podReady(pod) })
	r := guestReportOf(t, pod)
	root := filepath.Join(n.dir, "pods", string(pod.UID))
	if got := r.Files[filepath.Join(root, "root/etc/guest/key")]; got != "one" {
		t.Errorf("the Secret's key reads %q; files %v", got, r.Files)
	}
	if want := "--kubeconfig=" + filepath.Join(root, "in-cluster.kubeconfig"); !slices.Contains(r.Args, want) {
		t.Errorf("arguments %q have no %s", r.Args, want)
	}
}
