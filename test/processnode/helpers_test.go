// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

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
