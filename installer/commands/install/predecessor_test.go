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
	"k8s.io/utils/ptr"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/installer/testenv/leftby"
)

// leaseweb returns a cluster in which Leaseweb's provider runs, and its keys, which are in a Secret with the given
// name. change changes the provider's Deployment.
func leaseweb(t *testing.T, secret string, change func(*appsv1.Deployment)) (*env, credentials.Keys) {
	t.Helper()
	d := leftby.Controller("cloud-controller-manager", "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1",
		map[string]string{"k8s-app": "x"},
		"--cloud-provider=cloudstack", "--cloud-config=/etc/config/cloud-config")
	if change != nil {
		change(d)
	}

	e, _ := takenEnv(t, leftby.Leaseweb, d)
	cfg := e.cloud.Config(t, leftby.Account)
	require.NoError(t, e.Kube.Tracker().Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: secret},
		Data: map[string][]byte{
			"another": []byte("no cloud-config"),
			"cloud-config": []byte("[Global]\napi-url = " + e.cloud.URL + "\napi-key = " + cfg.APIKey +
				"\nsecret-key = " + cfg.SecretKey + "\n"),
		},
	}))

	return e, credentials.Keys{APIKey: cfg.APIKey, SecretKey: cfg.SecretKey}
}

func mounts(secret string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.Volumes = []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}},
		}
		pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}}
	}
}

// The keys of the provider that is replaced are taken from its Secret and never printed.
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
			e, keys := leaseweb(t, tc.secret, tc.change)
			o := e.taking(t)
			o.FromPredecessor = true
			e.install(t, o)
			require.Contains(t, e.Stderr.String(), "credentials of the other provider: Secret kube-system/"+tc.secret+
				" of Deployment kube-system/cloud-controller-manager, API "+e.cloud.URL)
			e.requireNoSecrets(t, keys.APIKey, keys.SecretKey)
			require.Contains(t, string(e.Secret(t, access.SecretName)[access.SecretKey]), keys.APIKey)
			_, again, _ := strings.Cut(e.Stdout.String(), "Repeat this install:")
			require.NotContains(t, again, "predecessor", "its Secret may go with it; the keys are in our own")
			require.NotContains(t, again, "api-key")
		})
	}
}

// On a terminal, csccm offers to use the keys of the provider that it replaces.
func TestInstallOffersThePredecessorsKeys(t *testing.T) {
	t.Parallel()
	e, keys := leaseweb(t, "cloud-config", nil)
	o := e.taking(t)
	e.Answers("3", "", "yes") // answers: keys, addresses, confirmation
	e.install(t, o)
	require.Contains(t, e.Stderr.String(),
		"Use the keys of the other provider (Secret kube-system/cloud-config of Deployment "+
			"kube-system/cloud-controller-manager, API "+e.cloud.URL+")")
	e.requireNoSecrets(t, keys.APIKey, keys.SecretKey)
}

// Two providers with different credentials are no source: the operator says which credentials count. One that is
// stopped does not count beside one that runs.
func TestInstallAsksWhichOfTwoPredecessors(t *testing.T) {
	t.Parallel()
	second := leftby.Controller("second", "apache/cloudstack-kubernetes-provider:v1.2.0", nil, "--leader-elect=true")
	second.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "x", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}},
	}
	e, keys := leaseweb(t, "cloud-config", nil)
	require.NoError(t, e.Kube.Tracker().Add(second))
	require.NoError(t, e.Kube.Tracker().Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "other"},
		Data: map[string][]byte{"cloud-config": []byte("[Global]\napi-url = " + e.cloud.URL +
			"\napi-key = other-canary\nsecret-key = secret-canary\n")},
	}))
	o := e.taking(t)
	o.FromPredecessor = true
	testenv.RequireRefusal(t, e.installer(t, o).Run(t.Context()),
		"use different credentials: Secret kube-system/cloud-config of "+
			"Deployment kube-system/cloud-controller-manager, API "+e.cloud.URL+"; Secret kube-system/other of Deployment kube-system/second",
		"--cloud-config FILE", report.ExitUsage)
	e.requireNoSecrets(t, "canary")

	second.Spec.Replicas = ptr.To(int32(0))
	_, err := e.Kube.AppsV1().Deployments("kube-system").Update(t.Context(), second, metav1.UpdateOptions{})
	require.NoError(t, err)
	e.install(t, o)
	require.Contains(t, string(e.Secret(t, access.SecretName)[access.SecretKey]), keys.APIKey)
}
