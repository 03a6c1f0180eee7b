// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// login writes a file with credentials, as docker and Helm do.
func login(t *testing.T, file, registry, user string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, registry, base64.StdEncoding.EncodeToString([]byte(user+":geheim")))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

//nolint:paralleltest // sets environment variables
func TestLogins(t *testing.T) {
	const registry = "registry.example.org"
	for label, tc := range map[string]struct {
		prepare func(home string)
		of      string
		want    string // the user; empty for none
		fails   string
	}{
		"none":           {prepare: func(string) {}},
		"docker":         {func(home string) { login(t, home+"/.docker/config.json", registry, "docker") }, registry, "docker", ""},
		"helm":           {func(home string) { login(t, home+"/.config/helm/registry/config.json", registry, "helm") }, registry, "helm", ""},
		"of another":     {func(home string) { login(t, home+"/.config/helm/registry/config.json", "other.example.org", "helm") }, registry, "", ""},
		"helm, Docker's": {func(home string) { login(t, home+"/.config/helm/registry/config.json", authn.DefaultAuthKey, "helm") }, name.DefaultRegistry, "helm", ""},
		"docker elsewhere": {func(home string) {
			login(t, home+"/.docker/config.json", "other.example.org", "docker")
			login(t, home+"/.config/helm/registry/config.json", registry, "helm")
		}, registry, "helm", ""},
		"both": {func(home string) {
			login(t, home+"/.docker/config.json", registry, "docker")
			login(t, home+"/.config/helm/registry/config.json", registry, "helm")
		}, registry, "docker", ""},
		"HELM_REGISTRY_CONFIG": {func(home string) {
			t.Setenv("HELM_REGISTRY_CONFIG", home+"/mine.json")
			login(t, home+"/mine.json", registry, "mine")
		}, registry, "mine", ""},
		"no JSON": {func(home string) {
			t.Setenv("HELM_REGISTRY_CONFIG", home+"/mine.json")
			require.NoError(t, os.WriteFile(home+"/mine.json", []byte("geheim"), 0o600))
		}, registry, "", "invalid character"},
	} {
		t.Run(label, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			for _, name := range []string{"XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE", "HELM_CONFIG_HOME", "HELM_REGISTRY_CONFIG"} {
				t.Setenv(name, "")
			}
			t.Setenv("DOCKER_CONFIG", home+"/.docker") // Docker's library determines the home directory only once
			tc.prepare(home)
			if tc.of == "" {
				tc.of = registry
			}
			of, err := name.NewRegistry(tc.of)
			require.NoError(t, err)
			found, err := keychain.Resolve(of)
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				assert.NotContains(t, err.Error(), "geheim")
				return
			}
			require.NoError(t, err)
			have, err := found.Authorization()
			require.NoError(t, err)
			assert.Equal(t, tc.want, have.Username)
		})
	}
}
