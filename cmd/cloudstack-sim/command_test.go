// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

// TestServer starts the command on free ports, uses it like a user and stops it.
func TestServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	readyFile := filepath.Join(dir, "ready.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := newCommand(&stdout, &stderr)
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--integration-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--fault", "listRegions:error:code=503", "--world", "example", "--ready-file", readyFile, "--log-calls", "--print-keys=false"})
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- cmd.ExecuteContext(ctx) }()

	var r ready
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(readyFile)
		return err == nil && json.Unmarshal(raw, &r) == nil
	}, time.Minute, 5*time.Millisecond)
	t.Logf("ready after %s", time.Since(began))
	info, err := os.Stat(readyFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Len(t, r.Users, 2)

	resp, err := http.Get(r.IntegrationURL + "?command=listZones&response=json")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, string(body), `"name":"zone-1"`)
	resp, err = http.Get(r.URL + "?command=listZones&response=json")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)

	resp, err = http.Get(r.AdminURL + "/faults")
	require.NoError(t, err)
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.JSONEq(t, `{"faults":[{"id":1,"fault":"listRegions:error:code=503","seen":0,"hits":0}]}`, string(body))

	cancel()
	require.NoError(t, <-done)
	require.Contains(t, stdout.String(), "CloudStack API:   "+r.URL)
	require.Contains(t, stderr.String(), "command=listZones")
	for _, u := range r.Users {
		require.NotContains(t, stdout.String()+stderr.String(), u.SecretKey, "a secret was printed although keys are not to be printed")
	}
}

// execute runs the command until it exits.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newCommand(&out, io.Discard)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestPage: --ui prints an address that a browser can visit once, and the page shows the simulator's calls.
func TestPage(t *testing.T) {
	t.Parallel()
	readyFile := filepath.Join(t.TempDir(), "ready.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	cmd := newCommand(&stdout, io.Discard)
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--ui", "--world", "example", "--ready-file", readyFile, "--print-keys=false"})
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	var r ready
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(readyFile)
		return err == nil && json.Unmarshal(raw, &r) == nil
	}, time.Minute, 5*time.Millisecond)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	get := func(url string) string {
		resp, err := browser.Get(url)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
		return string(body)
	}
	require.Contains(t, get(r.PageURL), "<html")
	resp, err := http.Get(r.URL + "?command=listZones&response=json")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	base, _, _ := strings.Cut(r.PageURL, "?")
	require.Eventually(t, func() bool { return strings.Contains(get(base+"api/snapshot"), "listZones") }, time.Minute, 10*time.Millisecond)
	shown := get(base + "api/snapshot")
	require.Contains(t, shown, "demo-worker-1")
	for _, u := range r.Users {
		require.NotContains(t, shown, u.APIKey)
		require.NotContains(t, shown, u.SecretKey)
	}
	cancel()
	require.NoError(t, <-done)
	require.Contains(t, stdout.String(), r.PageURL)
}

func TestHelpIsOnePage(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "--help")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(out, "\n"), 66) // a printed page has 66 lines
	for _, want := range []string{"--listen", "--world", "--profile", "integration port", "does not simulate"} {
		require.Contains(t, out, want)
	}
}

func TestVersionAndWorld(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "--version")
	require.NoError(t, err)
	require.Contains(t, out, "cloudstack-sim v")
	for flag, want := range map[string]string{"--print-world=fresh": "Sandbox-simulator", "--print-world=example": "zone-1"} {
		out, err = execute(t, flag)
		require.NoError(t, err)
		w, err := simulator.LoadWorld(strings.NewReader(out))
		require.NoError(t, err)
		require.Equal(t, want, w.Zones[0].Name, flag)
	}
}

func TestWrongInput(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "world.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("zones: [{name: z}]\n"), 0o600))
	for want, args := range map[string][]string{
		`latency profile "fast" is not known; use instant, simulator or production`: {"--profile", "fast"},
		`--cloudstack-version: CloudStack "4.15": there are 4.16 to 4.22`:           {"--cloudstack-version", "4.15"},
		`--world nope.yaml: open nope.yaml`:                                         {"--world", "nope.yaml"},
		`zone "z": publicRanges is empty`:                                           {"--world", bad},
		`--listen 256.0.0.1:0`:                                                      {"--listen", "256.0.0.1:0"},
		`the world is not known; use fresh or example`:                              {"--print-world=big"},
		`--admin-listen 0.0.0.0:0: give a loopback address`:                         {"--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"},
		`--fault: fault "listZones:slow": kind "slow"`:                              {"--fault", "listZones:slow"},
		`--fault: fault "listzones:error": command "listzones"`:                     {"--fault", "listzones:error"},
		`port forwarding by nftables needs the data path direct`:                    {"--data-path", "loopback", "--data-path-forwarding", "nftables"},
		`data path "bridge" is not known; use direct or loopback`:                   {"--data-path", "bridge"},
		`--data-path-members needs --data-path`:                                     {"--data-path-members", "x.yaml"},
		`--data-path-members nope.yaml: open nope.yaml`:                             {"--data-path", "loopback", "--data-path-members", "nope.yaml"},
		`unknown command "serve"`:                                                   {"serve"},
		`--ready-file`:                                                              {"--listen", "127.0.0.1:0", "--ready-file", "/nonexistent/keys"},
	} {
		_, err := execute(t, args...)
		require.ErrorContains(t, err, want, "%v", args)
	}
}
