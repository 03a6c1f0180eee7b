// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/access"
)

const secret = "cloudstack-secret"

func pod(name, kind, owner string, change func(p *corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	p.Spec.Containers = []corev1.Container{{Name: "side"}, {Name: "main"}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: ptr.To(true)}}
	}
	mounted("")(&p)
	if change != nil {
		change(&p)
	}
	return p
}

func mounted(subPath string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}},
		}
		p.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{{Name: "keys", SubPath: subPath}}
	}
}

func only(change func(c *corev1.Container, s *corev1.PodSpec)) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes, p.Spec.Containers[1].VolumeMounts = nil, nil
		change(&p.Spec.Containers[1], &p.Spec)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	local := corev1.LocalObjectReference{Name: secret}
	hash := func(p *corev1.Pod) { p.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "5d4f8"} }
	for name, tc := range map[string]struct {
		pod   corev1.Pod
		owner string // "" = not a user
	}{
		"volume of a DaemonSet": {pod("p", "DaemonSet", "csi", nil), "DaemonSet kube-system/csi"},
		"volume that nobody mounts": {pod("p", "DaemonSet", "csi",
			func(p *corev1.Pod) { p.Spec.Containers[1].VolumeMounts = nil }), "DaemonSet kube-system/csi"},
		"a Deployment": {pod("p", "ReplicaSet", "csi-5d4f8", hash), "Deployment kube-system/csi"},
		"a ReplicaSet": {pod("p", "ReplicaSet", "csi-5d4f8", nil), "ReplicaSet kube-system/csi-5d4f8"},
		"no owner":     {pod("p", "", "", nil), "Pod kube-system/p"},
		"a static Pod": {pod("p-node1", "Node", "node1", nil), "Pod kube-system/p-node1"},
		"projected": {pod("p", "Job", "j", only(func(c *corev1.Container, s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{
				Name: "all",
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{
						{ConfigMap: &corev1.ConfigMapProjection{}},
						{Secret: &corev1.SecretProjection{LocalObjectReference: local}},
					},
				}},
			}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "all"}}
		})), "Job kube-system/j"},
		"a variable": {pod("p", "DaemonSet", "csi", only(func(c *corev1.Container, _ *corev1.PodSpec) {
			c.Env = []corev1.EnvVar{
				{Name: "A", Value: "x"},
				{
					Name: "B",
					ValueFrom: &corev1.EnvVarSource{
						SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local},
					},
				},
			}
		})), "DaemonSet kube-system/csi"},
		"all variables": {pod("p", "DaemonSet", "csi", only(func(c *corev1.Container, _ *corev1.PodSpec) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local}}}
		})), "DaemonSet kube-system/csi"},
		"another Secret": {
			pod: pod("p", "DaemonSet", "csi", func(p *corev1.Pod) { p.Spec.Volumes[0].Secret.SecretName = "other" }),
		},
		"an image's": {pod: pod("p", "DaemonSet", "csi", only(func(_ *corev1.Container, s *corev1.PodSpec) {
			s.ImagePullSecrets = []corev1.LocalObjectReference{local}
		}))},
		"it has ended": {pod: pod("p", "Job", "j", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
		"elsewhere":    {pod: pod("p", "Job", "j", func(p *corev1.Pod) { p.Namespace = "default" })},
	} {
		users := access.UsersOf([]corev1.Pod{tc.pod}, "kube-system", secret)
		if tc.owner == "" {
			require.Empty(t, users, name)
			continue
		}
		require.Len(t, users, 1, name)
		require.Equal(t, tc.owner, users[0].String(), name)
	}

	users := access.UsersOf([]corev1.Pod{pod("b2", "DaemonSet", "b", nil), pod("a1", "DaemonSet", "a", nil),
		pod("b1", "DaemonSet", "b", mounted("x"))}, "kube-system", secret)
	require.Len(t, users, 2, "Pods of one owner are one user")
	require.Equal(t, "a", users[0].Name)
	require.Len(t, users[1].Pods, 2)
}

func TestCopies(t *testing.T) {
	t.Parallel()
	const key = "an-api-key-of-86-characters"
	object := func(namespace, name string, data ...string) corev1.Secret {
		s := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
		for i := 0; i < len(data); i += 2 {
			s.Data[data[i]] = []byte(data[i+1])
		}
		return s
	}

	all := []corev1.Secret{
		object("storage", "plain", "api-key", key, "secret-key", "x"),
		object("kube-system", secret, "cloud-config", "[Global]\napi-key = "+key+"\n", "csi", "api-key="+key),
		object("autoscaler", "ini", "b", "api-key = "+key, "a", "\""+key+"\""),
		object("other", "nothing", "api-key", "another", "empty", ""),
	}

	none := func(*corev1.Secret, string) bool { return false }
	own := func(s *corev1.Secret, key string) bool { return s.Namespace == "kube-system" && key == "cloud-config" }
	require.Equal(t, []access.Copy{
		{Namespace: "autoscaler", Name: "ini", Keys: []string{"a", "b"}},
		{Namespace: "kube-system", Name: secret, Keys: []string{"csi"}},
		{Namespace: "storage", Name: "plain", Keys: []string{"api-key"}},
	}, access.Copies(all, []string{"of no Secret", key}, own))

	require.Len(t, access.Copies(all, []string{key}, none)[1].Keys, 2)
	require.Empty(t, access.Copies(all, []string{""}, none), "an empty value is in nothing")
}
