// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A login over plain HTTP is refused before anything is sent, also with an administrator's keys: the answer holds the
// controller's secret key.
func TestLoginOverPlainHTTP(t *testing.T) {
	t.Parallel()
	kubeconfig := newFakeCluster(t).kubeconfig(t)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("word-canary\n"), 0o600))
	for name, args := range map[string][]string{
		"login":                {"--admin-user", "admin", "--admin-password-file", secret},
		"login, no password":   {"--admin-user", "admin"},
		"administrator's keys": {"--admin-api-key-file", secret, "--admin-secret-key-file", secret},
	} {
		// An address of documentation: a call to it would wait until --timeout.
		c := execute(t, append([]string{"install", "--kubeconfig", kubeconfig, "--account", "k8s", "--yes", "--api-url", "http://192.0.2.1/client/api"}, args...)...)
		require.Equal(t, 2, c.code, "%s: %s", name, c.errOut)
		require.Contains(t, c.errOut, "would send the password and the controller's new keys unencrypted; nothing was sent", name)
		require.Contains(t, c.errOut, "  fix: give the https:// URL, or add --allow-http", name)
		require.NotContains(t, c.errOut, "canary", name)
	}
}

// A file with a secret that other users may read is named, with the command that protects it.
func TestExposedSecretFile(t *testing.T) {
	t.Parallel()
	kubeconfig := newFakeCluster(t).kubeconfig(t)
	dir := t.TempDir()
	key, secret := filepath.Join(dir, "a key"), filepath.Join(dir, "secret")
	for _, path := range []string{key, secret} {
		require.NoError(t, os.WriteFile(path, []byte("word-canary\n"), 0o600))
	}
	require.NoError(t, os.Chmod(key, 0o644)) // #nosec G302 -- that is what is warned of
	c := execute(t, "install", "--kubeconfig", kubeconfig, "--api-url", "http://127.0.0.1:1/client/api", "--api-key-file", key, "--secret-key-file", secret, "--yes")
	require.Equal(t, 1, c.code, c.errOut)
	require.Contains(t, c.errOut, "warning: other users may read "+key+" (--api-key-file, mode 0644)\n  fix: chmod 600 '"+key+"'\n")
	require.NotContains(t, c.errOut, "--secret-key-file, mode")
	require.NotContains(t, c.errOut, "canary")
}

// Blanks and a byte order mark around keys, as editors and pastes leave them, are removed: such a key would
// be refused, or give a signature that CloudStack refuses.
func TestBlanksAroundKeys(t *testing.T) {
	t.Parallel()
	kubeconfig := newFakeCluster(t).kubeconfig(t)
	dir := t.TempDir()
	key, secret := filepath.Join(dir, "key"), filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(key, []byte("\ufeffkey-canary\r\n"), 0o600))
	require.NoError(t, os.WriteFile(secret, []byte(" secret-canary \n\n"), 0o600))
	base := []string{"install", "--kubeconfig", kubeconfig, "--api-url", "http://127.0.0.1:1/client/api", "--yes"}
	c := execute(t, append(base, "--api-key-file", key, "--secret-key-file", secret)...)
	require.Contains(t, c.errOut, "no CloudStack API answers", "the keys are usable")
	c = execute(t, append(base, "--admin-api-key-file", key, "--admin-secret-key-file", secret, "--account", "k8s")...)
	require.Contains(t, c.errOut, "cannot reach the API", "the keys are usable")
	require.NotContains(t, c.errOut, "canary")
	c = executeIn(t, environment("CLOUDSTACK_API_KEY", "key-canary", "CLOUDSTACK_SECRET_KEY", "secret-canary\n"), base...)
	require.Contains(t, c.errOut, "no CloudStack API answers", "the keys are usable")
}
