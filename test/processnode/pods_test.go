// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
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

// guestPod returns a Pod spec with every feature that the controller's Pod uses.
func guestPod() corev1.PodSpec {
	yes, port := true, intstr.FromString("http")
	probe := func(path string, failures int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: failures, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port}}}
	}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	return corev1.PodSpec{
		NodeSelector: map[string]string{"pool": "guests"},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "config"}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
		Containers: []corev1.Container{{
			Name: "guest", Image: guestImage + ":v1@sha256:0000000000000000000000000000000000000000000000000000000000000000", Command: []string{"/guest"},
			Args: []string{"--listen=$(POD_IP):8080", "--file=/etc/guest/key", "--file=/var/run/secrets/kubernetes.io/serviceaccount/token",
				"--file=/var/run/secrets/kubernetes.io/serviceaccount/namespace", "--file=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"},
			Env: []corev1.EnvVar{
				{Name: "POD_IP", ValueFrom: field("status.podIP")}, {Name: "POD_NAME", ValueFrom: field("metadata.name")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
				{Name: "FROM_SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}, Key: "key"}}},
				{Name: "GREETING", Value: "hello $(POD_NAME) $(UNKNOWN) $$(POD_IP)"},
			},
			Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			VolumeMounts:    []corev1.VolumeMount{{Name: "config", MountPath: "/etc/guest", ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}},
			StartupProbe:    probe("/livez", 30),
			LivenessProbe:   probe("/livez", 2),
			ReadinessProbe:  probe("/readyz", 1),
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes, ReadOnlyRootFilesystem: &yes},
		}},
	}
}

type guestReport struct {
	UID          int
	Dir          string
	Args         []string
	Env, Root    []string
	Files        map[string]string
	WritableRoot bool
}

func guestReportOf(t *testing.T, pod *corev1.Pod) guestReport {
	t.Helper()
	var r guestReport
	require.NoError(t, json.Unmarshal(guestGet(t, pod, "report"), &r))
	return r
}

func guestGet(t *testing.T, pod *corev1.Pod, what string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+":8080/"+what, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return b
}

func namespace(t *testing.T) string {
	t.Helper()
	if env.skip != "" {
		t.Skip(env.skip)
	}
	ns, err := env.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	// Pods are admitted only when their service account exists.
	eventually(t, "default service account", func() bool {
		_, err := env.client.CoreV1().ServiceAccounts(ns.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return ns.Name
}

func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := env.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return node
}

func removeTaints(t *testing.T, name string) {
	t.Helper()
	if _, err := env.client.CoreV1().Nodes().Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func getPod(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	pod, err := env.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func eventually(t *testing.T, what string, try func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !try() {
		if time.Now().After(deadline) {
			t.Fatalf("not within three minutes: %s", what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
