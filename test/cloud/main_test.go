// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// log collects the program's output and calls a function when a line contains a text.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	on   string
	do   func()
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if l.do != nil && strings.Contains(l.text.String(), l.on) {
		l.do()
		l.do = nil
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func none(string) string { return "" }

// TestInterrupted interrupts a run while a cluster is up: everything that the run created is removed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	if _, there, err := plane.Cached(t.Context(), plane.Newest); err != nil || testing.Short() || !there {
		t.Skip("it needs the built control plane: go run ./cmd/plane-build", err)
	}

	cloud, err := testenv.StartCloudStackWith(simulator.Options{World: simulator.FreshWorld()})
	require.NoError(t, err)
	t.Cleanup(cloud.Stop)
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("password\n"), 0o600))
	ctx, interrupt := context.WithTimeout(t.Context(), 5*time.Minute)
	defer interrupt()
	var out log
	errs := log{on: "a cluster of 3 nodes is ready", do: interrupt}
	restored := false
	code := run(ctx, func() { restored = true }, []string{
		"--url", cloud.URL, "--admin-user", "admin", "--admin-password-file", password, "--journal-dir", dir, "--only",
		"isolated network",
	}, none, &out, &errs)

	if code != exitInterrupted || !restored {
		t.Errorf("it ended with %d, a second ^C ends it at once: %v\n%s", code, restored, errs.String())
	}

	for command, object := range map[string]string{
		"listVirtualMachines": "virtualmachine",
		"listNetworks":        "network",
		"listDomains":         "domain",
	} {
		list, err := cloud.Admin(t.Context(), command, map[string]string{"listall": "true"})
		require.NoError(t, err)
		items, _ := list[object].([]any)
		if want := map[string]int{"listDomains": 1}[command]; len(items) != want { // the domain ROOT remains
			t.Errorf("%s: %d are left, want %d\n%s", command, len(items), want, errs.String())
		}
	}

	if left, err := filepath.Glob(filepath.Join(dir, "*.jsonl")); err != nil || len(left) > 0 {
		t.Errorf("journals %v are left, %v", left, err)
	}
}

// TestUsage: errors in flags are reported before anything starts.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	full, empty := filepath.Join(dir, "full"), filepath.Join(dir, "empty")
	for path, text := range map[string]string{full: "x\n", empty: " \n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}

	const url = "https://cloud.example.org/client/api"
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		code int
		want string
	}{
		"list":                    {[]string{"--list"}, nil, 0, ""},
		"unknown scenario":        {[]string{"--only", "no such thing"}, nil, 2, "no such thing"},
		"only by the environment": {nil, map[string]string{"ONLY": "no such thing"}, 2, "no such thing"},
		"URL without credentials": {[]string{"--url", url}, nil, 2, "CLOUD_ADMIN_USER"},
		"credentials without URL": {[]string{"--admin-user", "admin"}, nil, 2, "without CLOUD_URL"},
		"login and keys": {[]string{"--admin-password-file", full},
			map[string]string{
				"CLOUD_URL":             url,
				"CLOUD_ADMIN_USER":      "a",
				"CLOUD_API_KEY_FILE":    full,
				"CLOUD_SECRET_KEY_FILE": full,
			}, 2, "give one"},
		"an empty key file": {[]string{"--url", url, "--api-key-file", empty, "--secret-key-file", full}, nil,
			2, "is empty"},
		"a password file is missing": {[]string{"--url", url, "--admin-user", "a", "--admin-password-file",
			full + "-not"}, nil, 2, "no such file"},
		"hostile run id": {[]string{"--clean", "--url", url, "--api-key-file", full, "--secret-key-file",
			full, "--run", "a"}, nil, 2, "is no run id"},
		"cleaning a simulator": {[]string{"--clean"}, nil, 2, "CLOUD_URL is missing"},
		"arguments":            {[]string{"isolated"}, nil, 2, "flags only"},
	} {
		var out, errs log
		code := run(t.Context(), func() {}, append([]string{"--journal-dir", dir}, c.args...),
			func(k string) string { return c.env[k] }, &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d %q", name, code, errs.String())
		}
		if strings.Contains(errs.String(), "x\n") {
			t.Errorf("%s: a secret is printed", name)
		}
	}
}
