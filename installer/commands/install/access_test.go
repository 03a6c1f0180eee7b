// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/installer/testenv"
)

// Settings of the cloud-config from flags, answers, a file and the Secret are merged key by key.
func TestInstallMergesTheCloudConfig(t *testing.T) {
	t.Parallel()
	const rare = "node-vms = demo-*\nformer-cluster-ids = old-1,old-2\nlb-mode = direct\njob-timeout = " +
		"3m0s\nrate-limit = 7\n"
	for name, tc := range map[string]struct {
		secret, file string
		flags        access.Settings
		admin        bool
		want         string
	}{
		"a file": {"", rare, nil, false, rare},
		"a file over a Secret": {rare + "region = eu\n", "job-timeout = 5m0s\n", nil, false,
			"job-timeout = 5m0s\nregion = eu\nnode-vms = demo-*\nlb-mode = direct\n"},
		"a default in the file": {rare, "job-timeout = 10m\n", nil, false,
			"! job-timeout\nnode-vms = demo-*\n"},
		"flags over a file": {"", rare + "zone = zone-9\n",
			access.Settings{"zone": "zone-1", "region": "eu"}, false, rare + "zone = zone-1\nregion = eu\n"},
		"flags over the Secret": {rare + "ssl-no-verify = true\nzone = zone-9\n", "",
			access.Settings{"ssl-no-verify": "false", "zone": ""}, false, rare + "! zone\n! ssl-no-verify\n"},
		"a new user over a Secret": {rare + "ssl-no-verify = true\n", "", nil, true,
			rare + "ssl-no-verify = true\n"},
		"another spelling of the URL":      {rare, "", access.Settings{"api-url": "trailing slash"}, false, rare},
		"another spelling, and a new user": {rare, "", access.Settings{"api-url": "trailing slash"}, true, rare},
		"keys of another provider in a file": {"",
			"api-rate-limit-qps = 5\napi-rate-limit-burst = 9\nvm-cache-ttl = 30\n", nil, false,
			"rate-limit = 5\nrate-burst = 9\n! vm-cache-ttl\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.onePod()
			keys := e.keys(t)
			head := "[Global]\napi-url = " + e.cloud.URL + "\napi-key = " + keys.Answers["api-key"] +
				"\nsecret-key = " + keys.Answers["secret-key"] + "\n"
			o := Config{OverwriteSecret: true}
			if tc.admin {
				o = e.admin()
				o.Answers, o.OverwriteSecret = nil, true
			}

			if o.Flags = maps.Clone(tc.flags); tc.flags["api-url"] != "" {
				o.Flags["api-url"] = e.cloud.URL + "/"
			}

			if tc.secret != "" {
				e.putSecret(t, head+tc.secret)
			}

			if tc.file != "" {
				o.File = []byte(head + tc.file)
			}

			e.install(t, o)
			got := string(e.Secret(t, access.SecretName)[access.SecretKey])
			for line := range strings.Lines(tc.want) {
				if absent, ok := strings.CutPrefix(line, "! "); ok {
					require.NotContains(t, got, strings.TrimSpace(absent))
				} else {
					require.Contains(t, got, line)
				}
			}
		})
	}
}

// A key that csccm cannot use is named.
func TestInstallNamesIgnoredKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.onePod()
	o := e.keys(t)
	o.File = e.Merged(o, "vm-cache-ttl = 30\n")
	e.install(t, o)
	require.Contains(t, e.Stderr.String(), "vm-cache-ttl is a key of another provider and has no effect")
}

// Merged returns a cloud-config file with the settings of an install and additional lines.
func (e *env) Merged(o Config, more string) []byte { return append(o.Over(nil).Render(), more...) }

// The Secret is the one that the chart's value existingSecret names.
func TestInstallUsesTheSecretOfTheChart(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.onePod()
	o := e.keys(t)
	o.Values = map[string]any{"existingSecret": map[string]any{"name": "mine", "key": "config.ini"}}
	e.install(t, o)
	require.NotEmpty(t, e.Secret(t, "mine")["config.ini"])
	require.Nil(t, e.Secret(t, access.SecretName))
	e.install(t, Config{})
	require.Contains(t, e.Stderr.String(), "using the credentials in Secret kube-system/mine")

	// Other commands use the Secret that the Pods mount.
	d, err := e.Kube.AppsV1().Deployments(testenv.Namespace).Get(t.Context(), testenv.Deployment(1).Name,
		metav1.GetOptions{})
	require.NoError(t, err)
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "cloud-config", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{
			SecretName: "mine",
			Items:      []corev1.KeyToPath{{Key: "config.ini", Path: "cloud-config"}},
		},
	}}}
	_, err = e.Kube.AppsV1().Deployments(testenv.Namespace).Update(t.Context(), d, metav1.UpdateOptions{})
	require.NoError(t, err)
	before := e.Secret(t, "mine")["config.ini"]
	e.rotate(t)
	require.NotEqual(t, before, e.Secret(t, "mine")["config.ini"])
	require.Nil(t, e.Secret(t, access.SecretName))
	for _, release := range []string{e.Release, ""} {
		cs, err := access.OfSecret(t.Context(), e.Cluster, release)
		require.NoError(t, err)
		require.Equal(t, "Secret kube-system/mine", cs.From)
		cs.Close()
	}
}

// Keys that CloudStack no longer accepts are replaced by the command in the remedy, without other flags.
func TestInstallHealsDeadKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.onePod()
	e.install(t, e.admin())
	users, err := e.cloud.Admin(t).ListUsers(t.Context(), "")
	require.NoError(t, err)
	_, err = e.cloud.Admin(t).RegisterUserKeys(t.Context(),
		testenv.Named(t, users, "kubeadmin", func(u cloudapi.User) string { return u.Username }).ID)
	require.NoError(t, err)
	require.Error(t, e.works(t))
	testenv.RequireRefusal(t, e.installer(t, Config{OverwriteSecret: true}).Run(t.Context()),
		"does not accept the API keys",
		"csccm install --overwrite-secret --admin-user USER --admin-password-file FILE", report.ExitFailure)
	e.install(t, Config{AdminUser: "admin", AdminPassword: "password", OverwriteSecret: true})
	require.NoError(t, e.works(t))
}
