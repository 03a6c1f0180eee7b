// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

func wanted() *cloudstack.Config {
	c := cloudconfig.Default()
	c.APIURL = "https://cloud.example.org/client/api"
	c.APIKey = "api-canary"
	c.SecretKey = "secret-canary"
	c.Zone = "zone #1"
	c.CAFile = "/home/me/ca.pem"
	return &c
}

func cluster(objects ...kruntime.Object) kubernetes.Interface { return fake.NewClientset(objects...) }

func secret(cloudConfig string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system",
			Name:      access.SecretName,
			Labels:    map[string]string{"mine": "yes"},
		},
		Data: map[string][]byte{access.SecretKey: []byte(cloudConfig), "other": []byte("kept")},
	}
}

func read(t *testing.T, kube kubernetes.Interface) *access.Secret {
	t.Helper()
	s, err := access.ReadSecret(t.Context(), kube, "kube-system", "", "")
	require.NoError(t, err)
	return s
}

// planned returns the plan for the Secret of a cluster.
func planned(t *testing.T, kube kubernetes.Interface) *access.SecretPlan {
	t.Helper()
	p, err := access.PlanSecret(read(t, kube), wanted())
	require.NoError(t, err)
	return p
}

func TestSecretCreateThenKeep(t *testing.T) {
	t.Parallel()
	kube := cluster()
	require.False(t, read(t, kube).Exists)
	p := planned(t, kube)
	require.Equal(t, access.SecretCreate, p.Action)
	require.NoError(t, p.Apply(t.Context(), kube))

	object := read(t, kube).Object
	require.Equal(t, "csccm", object.Labels["app.kubernetes.io/managed-by"])
	require.Equal(t, corev1.SecretTypeOpaque, object.Type)
	back, err := cloudconfig.Parse(bytes.NewReader(object.Data[access.SecretKey]))
	require.NoError(t, err)
	expected := *wanted()
	expected.CAFile = "" // a path on this machine is not stored
	require.Equal(t, expected, *back)

	p = planned(t, kube)
	require.Equal(t, access.SecretKeep, p.Action)
	require.Empty(t, p.Differences)
}

func TestSecretOverwrite(t *testing.T) {
	t.Parallel()
	kube := cluster(secret("[Global]\napi-url = https://old.example.org/client/api\napi-key = old-canary\nsecret-key " +
		"= secret-canary\n"))
	p := planned(t, kube)
	require.Equal(t, access.SecretOverwrite, p.Action)
	require.Equal(t, []string{
		`api-url is "https://old.example.org/client/api", would be "https://cloud.example.org/client/api"`,
		"api-key differs",
		`zone is not set, would be "zone #1"`,
	}, p.Differences)
	require.NotContains(t, fmt.Sprint(p.Differences), "canary")
	require.NoError(t, p.Apply(t.Context(), kube))
	object := read(t, kube).Object
	require.Equal(t, "kept", string(object.Data["other"]))
	require.Equal(t, "yes", object.Labels["mine"])
	require.Contains(t, string(object.Data[access.SecretKey]), "api-canary")
}

func TestSecretProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object *corev1.Secret
		want   string
	}{
		"unknown key": {secret("[Global]\napi-url = https://a/client/api\napi-kee = secret-canary\n"),
			`unknown key "api-kee"`},
		"no section": {secret("nonsense"), "Secret kube-system/cloudstack-secret: cloud-config"},
		"no key": {&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: access.SecretName},
		}, "has no key cloud-config"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := read(t, cluster(tc.object))
			require.True(t, s.Exists)
			require.Nil(t, s.Config)
			require.ErrorContains(t, s.Problem, tc.want)
			require.NotContains(t, s.Problem.Error(), "canary")
			p, err := access.PlanSecret(s, wanted())
			require.NoError(t, err)
			require.Equal(t, access.SecretOverwrite, p.Action)
		})
	}

	c := wanted()
	c.SecretKey = ""
	_, err := access.PlanSecret(read(t, cluster()), c)
	require.ErrorContains(t, err, "secret-key is missing")
}

func TestCAConfigMap(t *testing.T) {
	t.Parallel()
	kube := cluster(secret(string(wanted().Render())))
	s := read(t, kube)
	cfg, cleanup, err := s.LocalConfig(t.Context(), kube)
	require.NoError(t, err)
	require.Empty(t, cfg.CAFile, "a path of another machine is of no use here")
	cleanup()

	for _, pem := range []string{"first", "second", "second"} {
		require.NoError(t, access.ApplyCA(t.Context(), kube, "kube-system", []byte(pem)))
		cfg, cleanup, err = s.LocalConfig(t.Context(), kube)
		require.NoError(t, err)
		body, err := os.ReadFile(cfg.CAFile)
		require.NoError(t, err)
		require.Equal(t, pem, string(body))
		cleanup()
		_, err = os.Stat(cfg.CAFile)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestReadPassword(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want, err string }{
		"plain":       {in: "pass word", want: "pass word"},
		"line break":  {in: "password\r\n", want: "password"},
		"BOM":         {in: "\ufeffpassword\n", want: "password"},
		"blanks":      {in: " password \n", want: " password "},
		"empty":       {in: "\n", err: "--x: the secret is empty"},
		"two lines":   {in: "user\ncanary\n", err: "--x: that is not one line of text"},
		"binary":      {in: "can\xffary", err: "--x: that is not one line of text"},
		"far too big": {in: strings.Repeat("a", 1<<17), err: "--x: that is not one line of text"},
	} {
		got, err := credentials.ReadPassword("--x", "", strings.NewReader(tc.in))
		require.Equal(t, tc.want, got, name)
		if tc.err == "" {
			require.NoError(t, err, name)
			continue
		}
		require.EqualError(t, err, tc.err, name)
		var e *report.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, 2, e.ExitCode(), name)
	}

	_, err := credentials.ReadPassword("--x", t.TempDir()+"/none", nil)
	require.ErrorContains(t, err, "--x: open ")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What editors and clipboards add around keys is removed.
func TestReadKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	for name, tc := range map[string]struct{ in, err string }{
		"plain":            {in: "key-canary"},
		"line break":       {in: "key-canary\r\n"},
		"blanks":           {in: " \tkey-canary \n"},
		"blank lines":      {in: "\n key-canary\n \n"},
		"BOM":              {in: "\ufeffkey-canary\n"},
		"BOM and blank":    {in: "\ufeff key-canary\u00a0\r\n"},
		"zero width space": {in: "key-canary\u200b"},
		"two lines":        {in: "key\ncanary\n", err: "--x: that is not one line of text"},
		"nothing":          {in: " \ufeff\n", err: "--x: the secret is empty"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(tc.in), 0o600))
		got, err := credentials.ReadKeyFile("--x", path)
		if tc.err != "" {
			require.EqualError(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, "key-canary", got, name)
	}

	_, err := credentials.ReadKeyFile("--x", t.TempDir()+"/none")
	require.ErrorContains(t, err, "--x: open ")
}

// The keys in the Secret never count as replaced, even if the record says so: otherwise they would be revoked.
func TestHasReplaced(t *testing.T) {
	t.Parallel()
	var r access.Rotation
	r.Replaced("kubeadmin", "old")
	r.Replaced("kubeadmin-2", "current")
	s := &access.Secret{Object: &corev1.Secret{}, Config: &cloudstack.Config{APIKey: "current"}}
	r.Write(s.Object)
	require.Equal(t, []bool{true, false, false},
		[]bool{s.HasReplaced("old"), s.HasReplaced("current"), s.HasReplaced("other")})
	require.False(t, (&access.Secret{Object: s.Object}).HasReplaced("old"), "a Secret that cannot be read")
}
