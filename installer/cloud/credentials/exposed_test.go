// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"http://cloud.example.org/client/api":   true,
		"HTTP://cloud.example.org/client/api":   true,
		"http://192.0.2.1:8080/client/api":      true,
		"http://[2001:db8::1]:8080/client/api":  true,
		"http://localhost.example.org/client":   true,
		"https://cloud.example.org/client/api":  false,
		"http://localhost:8080/client/api":      false,
		"http://127.0.0.1:8080/client/api":      false,
		"http://127.1.2.3/client/api":           false,
		"http://[::1]:8080/client/api":          false,
		"":                                      false,
		"://":                                   false,
		"https://user@cloud.example.org/client": false,
	} {
		require.Equal(t, want, PlainHTTP(url), url)
		require.NoError(t, RefusePlainLogin(url, true), url)
		err := RefusePlainLogin(url, false)
		if !want {
			require.NoError(t, err, url)
			continue
		}
		var e *Error
		require.ErrorAs(t, err, &e, url)
		require.Equal(t, 2, e.ExitCode())
		require.Contains(t, e.Remedy(), "--allow-http")
	}
}

func TestExposedMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode]bool{
		0o600: false, 0o400: false, 0o700: false, 0o640: true, 0o604: true, 0o644: true, 0o620: false,
		0o644 | fs.ModeNamedPipe: false, 0o666 | fs.ModeDevice | fs.ModeCharDevice: false, 0o755 | fs.ModeDir: false,
	} {
		_, got := exposed(mode)
		require.Equal(t, want, got, mode)
	}
	dir := t.TempDir()
	file := func(name string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	mode, is := ExposedMode(file("key", 0o644))
	require.True(t, is)
	require.EqualValues(t, 0o644, mode)
	_, is = ExposedMode(file("private", 0o600))
	require.False(t, is)
	_, is = ExposedMode(filepath.Join(dir, "none"))
	require.False(t, is)

	// As the kubelet mounts a Secret: key -> ..data/key, ..data -> a folder with the time in its name.
	file("..2026_11_22/password", 0o644)
	require.NoError(t, os.Symlink("..2026_11_22", filepath.Join(dir, "..data")))
	mount := filepath.Join(dir, "password")
	require.NoError(t, os.Symlink("..data/password", mount))
	_, is = ExposedMode(mount)
	require.False(t, is, "a Secret that Kubernetes mounts")
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("key", link))
	_, is = ExposedMode(link)
	require.True(t, is, "a symbolic link to a file that others may read")
	for _, path := range []string{"/dev/stdin", "/proc/self/fd/0", "/run/secrets/password"} {
		_, is = ExposedMode(path)
		require.False(t, is, path)
	}
}
