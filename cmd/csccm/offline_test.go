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

// Rendering needs no cluster.
func TestTemplateImages(t *testing.T) {
	t.Parallel()
	r := execute(t, "template", "--kube-version", "v1.37.1", "-n", "infra", "--set", "replicaCount=1")
	require.Equal(t, 0, r.code, r.errOut)
	objects, err := diff.Parse(r.out)
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	require.Contains(t, r.out, "namespace: infra")

	r = execute(t, "images", "--kube-version", "v1.37.1", "--registry", "mirror.example.org/k8s", "-o", "json")
	require.Equal(t, 0, r.code, r.errOut)
	var list imageList
	require.NoError(t, json.Unmarshal([]byte(r.out), &list))
	require.Len(t, list.Images, 1)
	require.True(t, strings.HasPrefix(list.Images[0].Mirror, "mirror.example.org/k8s/"), list.Images[0].Mirror)
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
		"a login":              {[]string{"install", "--admin-cmk-profile", "current", "--account", "k8s"}, 1, "no CloudStack API answers at http://127.0.0.1:1/client/api"},
		"keys":                 {[]string{"install", "--cmk-profile", "keys", "--yes"}, 1, "no CloudStack API answers at http://127.0.0.1:1/client/api"},
		"administrator's keys": {[]string{"install", "--admin-cmk-profile=keys", "--account", "k8s"}, 1, "listing domains"},
		"URL by flag":          {[]string{"install", "--cmk-profile", "keys", "--api-url", "http://127.0.0.1:2/client/api", "--yes"}, 1, "answers at http://127.0.0.1:2/client/api"},
		"no keys":              {[]string{"install", "--cmk-profile", "current"}, 2, `profile "lab" of ` + file + " has no keys"},
		"no such profile":      {[]string{"install", "--cmk-profile=prod"}, 2, `has no profile "prod"`},
		"both":                 {[]string{"install", "--cmk-profile", "keys", "--admin-cmk-profile=keys"}, 2, "both given"},
		"no profile":           {[]string{"install", "--cmk-config", file}, 2, "--cmk-config needs"},
		"and keys of a file":   {[]string{"install", "--admin-cmk-profile=keys", "--api-key-file", file}, 2, "both given"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := executeIn(t, env, append(tc.args, "--kubeconfig", newFakeCluster(t).kubeconfig(t))...)
			require.Contains(t, r.errOut, tc.err)
			require.Equal(t, tc.code, r.code, r.errOut)
			require.NotContains(t, r.errOut+r.out, "canary")
		})
	}
}
