// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/diff"
)

// Rendering needs no cluster, and neither does what an air-gapped one is prepared with.
func TestTemplateImagesChartSave(t *testing.T) {
	t.Parallel()
	r := csccm(t, "", environment(), "template", "--kube-version", "v1.37.1", "-n", "infra", "--set", "replicaCount=1")
	require.Equal(t, 0, r.code, r.err)
	objects, err := diff.Parse(r.out)
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	require.Contains(t, r.out, "namespace: infra")

	r = csccm(t, "", environment(), "images", "--kube-version", "v1.37.1", "--registry", "mirror.example.org/k8s", "-o", "json")
	require.Equal(t, 0, r.code, r.err)
	var list imageList
	require.NoError(t, json.Unmarshal([]byte(r.out), &list))
	require.Len(t, list.Images, 1)
	require.True(t, strings.HasPrefix(list.Images[0].Mirror, "mirror.example.org/k8s/"), list.Images[0].Mirror)

	dir := filepath.Join(t.TempDir(), "new")
	r = csccm(t, "", environment(), "chart", "save", dir, "--registry", "mirror.example.org/k8s", "-o", "yaml")
	require.Equal(t, 0, r.code, r.err)
	files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	lines, err := os.ReadFile(filepath.Join(dir, "images.txt"))
	require.NoError(t, err)
	require.Equal(t, list.Images[0].Image+" "+list.Images[0].Mirror+"\n", string(lines))
	r = csccm(t, "", environment(), "chart", "save", filepath.Join(dir, "images.txt"))
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "not a directory\n  fix: name a folder")
	// What was saved gives the mirror's image.
	r = csccm(t, "", environment(), "images", "--kube-version", "v1.37.1", "--chart", files[0], "--values", filepath.Join(dir, "values-mirror.yaml"))
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, list.Images[0].Mirror+"\n", r.out)
}

// cmk's configuration gives URL and keys; what a flag says goes first.
func TestCMKFlags(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, ".cmk"), 0o700))
	file := filepath.Join(home, ".cmk", "config")
	require.NoError(t, os.WriteFile(file, []byte(`[core]
profile = lab
[lab]
url = http://127.0.0.1:1/client/api
username = admin
password = word-canary
domain = /
[keys]
url = http://127.0.0.1:1/client/api
apikey = key-canary
secretkey = secret-canary
`), 0o600))
	env := environment("HOME", home)
	for name, tc := range map[string]struct {
		args []string
		code int
		err  string
	}{
		"a login":              {[]string{"install", "--admin-cmk-profile", "--account", "k8s"}, 1, "no CloudStack API answers at http://127.0.0.1:1/client/api"},
		"keys":                 {[]string{"install", "--cmk-profile=keys", "--yes"}, 1, "no CloudStack API answers at http://127.0.0.1:1/client/api"},
		"administrator's keys": {[]string{"install", "--admin-cmk-profile=keys", "--account", "k8s"}, 1, "listing domains"},
		"URL by flag":          {[]string{"install", "--cmk-profile=keys", "--api-url", "http://127.0.0.1:2/client/api", "--yes"}, 1, "answers at http://127.0.0.1:2/client/api"},
		"no keys":              {[]string{"install", "--cmk-profile"}, 2, `profile "lab" of ` + file + " has no keys"},
		"no such profile":      {[]string{"install", "--cmk-profile=prod"}, 2, `has no profile "prod"`},
		"both":                 {[]string{"install", "--cmk-profile=keys", "--admin-cmk-profile=keys"}, 2, "both given"},
		"no profile":           {[]string{"install", "--cmk-config", file}, 2, "--cmk-config needs"},
		"and keys of a file":   {[]string{"install", "--admin-cmk-profile=keys", "--api-key-file", file}, 2, "both given"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := csccm(t, "", env, append(tc.args, "--kubeconfig", apiServer(t))...)
			require.Contains(t, r.err, tc.err)
			require.Equal(t, tc.code, r.code, r.err)
			require.NotContains(t, r.err+r.out, "canary")
		})
	}
}

func TestUsageOfOperations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		err  string
	}{
		"rollback to a word":    {[]string{"rollback", "latest"}, "rollback takes one revision"},
		"rollback to 0":         {[]string{"rollback", "0"}, "rollback takes one revision"},
		"upgrade, dry run":      {[]string{"upgrade", "--dry-run=maybe"}, "--dry-run=maybe is not known"},
		"uninstall, output":     {[]string{"uninstall", "-o", "junit"}, `-o "junit" is none of text, json, yaml`},
		"two folders":           {[]string{"chart", "save", "a", "b"}, "chart save takes one folder"},
		"template, output":      {[]string{"template", "-o", "json"}, "none of yaml"},
		"rotate-keys, password": {[]string{"rotate-keys", "--admin-password", "word-canary"}, "unknown flag: --admin-password"},
		"template, a value":     {[]string{"template", "--kube-version", "v1.37.1", "--set", "replicaCount=many"}, "chart values: replicaCount: got string"},
		"images, a value":       {[]string{"images", "--kube-version", "v1.37.1", "--set", "flavour=vanilla"}, "chart values: flavour: there is no such value"},
		"chart save, a value":   {[]string{"chart", "save", "/none", "--set", "replicas=2"}, "chart values: replicas is not known here; use replicaCount"},
		"rotate-keys, one key":  {[]string{"rotate-keys", "--admin-api-key-file", "/none"}, "--admin-api-key-file: cannot read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := csccm(t, "", environment(), tc.args...)
			require.Equal(t, 2, r.code, r.err)
			require.Contains(t, r.err, tc.err)
			require.Contains(t, r.err, "\n  fix: ")
			require.NotContains(t, r.err, "canary")
		})
	}
	for _, command := range []string{"upgrade", "rollback", "uninstall", "rotate-keys"} {
		r := csccm(t, "", environment(), command, "--server", "http://127.0.0.1:1")
		require.Equal(t, 1, r.code, command)
		require.Contains(t, r.err, "connection refused", command)
		if command == "uninstall" { // needs no release
			continue
		}
		r = csccm(t, "", environment("XDG_STATE_HOME", t.TempDir()), command, "--kubeconfig", apiServer(t))
		require.NotEqual(t, 1, r.code, "%s: %s", command, r.err)
		require.Contains(t, r.err, "fix: ", command)
	}
}
