// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/installer/engine/prompt"
)

// leaseweb is a bench in which Leaseweb's provider runs, whose Deployment reads its cloud-config as given.
func leaseweb(t *testing.T, secret string, change func(*appsv1.Deployment)) (*bench, Keys) {
	t.Helper()
	d := leftby.Controller("cloud-controller-manager", "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1", map[string]string{"k8s-app": "x"},
		"--cloud-provider=cloudstack", "--cloud-config=/etc/config/cloud-config")
	if change != nil {
		change(d)
	}
	b, _ := takenBench(t, leftby.Leaseweb, d)
	api, key, ok := b.sim.Keys(leftby.Account)
	require.True(t, ok)
	require.NoError(t, b.kube.Tracker().Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: secret},
		Data: map[string][]byte{
			"another": []byte("no cloud-config"), "cloud-config": []byte("[Global]\napi-url = " + b.url + "\napi-key = " + api + "\nsecret-key = " + key + "\n"),
		},
	}))
	return b, Keys{api, key}
}

func mounts(secret string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}}
		pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}}
	}
}

// The keys of the provider that is replaced are taken from its Secret, shown by their user and never printed.
func TestInstallFromPredecessor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		secret string
		change func(*appsv1.Deployment)
	}{
		"the usual Secret": {"cloud-config", nil},
		"the mounted one":  {"my-own", mounts("my-own")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, keys := leaseweb(t, tc.secret, tc.change)
			o := b.taking(t)
			o.Credentials.FromPredecessor = true
			in := b.installer(t, o)
			require.NoError(t, in.Run(t.Context()), b.err.String())
			require.Contains(t, b.err.String(), "credentials of the other provider: Secret kube-system/"+tc.secret+
				" of Deployment kube-system/cloud-controller-manager, API "+b.url+", user ")
			require.Contains(t, b.err.String(), " of account "+leftby.Account)
			b.requireNoSecrets(t, keys.APIKey, keys.SecretKey)
			s, err := b.kube.CoreV1().Secrets("kube-system").Get(t.Context(), credentials.SecretName, metav1.GetOptions{})
			require.NoError(t, err)
			require.Contains(t, string(s.Data[credentials.SecretKey]), keys.APIKey)
			require.NotContains(t, strings.Join(in.FlagLine(), " "), "predecessor", "its Secret may go with it; the keys are in our own")
			require.NotContains(t, strings.Join(in.FlagLine(), " "), "api-key")
		})
	}
}

// On a terminal they are offered.
func TestInstallOffersThePredecessorsKeys(t *testing.T) {
	t.Parallel()
	b, keys := leaseweb(t, "cloud-config", nil)
	o := b.taking(t)
	o.Yes = false
	in := b.installer(t, o)
	in.Prompt = prompt.NewLines(strings.NewReader("3\nyes\n"), &b.err)
	require.NoError(t, in.Run(t.Context()), b.err.String())
	require.Contains(t, b.err.String(), "Use the keys of the other provider (Secret kube-system/cloud-config of Deployment kube-system/cloud-controller-manager, API "+b.url+", user ")
	b.requireNoSecrets(t, keys.APIKey, keys.SecretKey)
}

func TestInstallWithoutPredecessorsKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, demoNodes()...)
	o := Options{Yes: true, Credentials: CredentialOptions{FromPredecessor: true}}
	err := b.installer(t, o).Run(t.Context())
	require.ErrorContains(t, err, "there is no other provider for CloudStack whose credentials could be used")
	b, _ = leaseweb(t, "elsewhere", nil)
	o = b.taking(t)
	o.Credentials.FromPredecessor = true
	err = b.installer(t, o).Run(t.Context())
	require.ErrorContains(t, err, "no Secret of the other provider holds a cloud-config; looked at kube-system/cloud-config, kube-system/cloudstack-secret")
	var coder interface {
		ExitCode() int
		Remedy() string
	}
	require.ErrorAs(t, err, &coder)
	require.Equal(t, 2, coder.ExitCode())
	require.Contains(t, coder.Remedy(), "--cloud-config FILE")
}
