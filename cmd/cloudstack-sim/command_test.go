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

// start starts the command on free ports, until stop.
func start(t *testing.T, args ...string) (r ready, stop func() (stdout, stderr string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	cmd := newCommand(&stdout, &stderr)
	cmd.SetArgs(append(args, "--listen", "127.0.0.1:0", "--world", "example", "--ready-file", file,
		"--print-keys=false"))
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(raw, &r) == nil
	}, time.Minute, 5*time.Millisecond)

	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	return r, func() (string, string) {
		cancel()
		require.NoError(t, <-done)
		return stdout.String(), stderr.String()
	}
}

func get(t *testing.T, client *http.Client, url string, status int) string {
	t.Helper()
	resp, err := client.Get(url)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, status, resp.StatusCode, "%s", body)
	return string(body)
}

const zones = "?command=listZones&response=json"

// TestServer uses the command like a user and stops it.
func TestServer(t *testing.T) {
	t.Parallel()
	r, stop := start(t, "--integration-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--fault",
		"listRegions:error:code=503", "--log-calls")
	require.Len(t, r.Users, 2)
	require.Contains(t, get(t, http.DefaultClient, r.IntegrationURL+zones, http.StatusOK), `"name":"zone-1"`)
	get(t, http.DefaultClient, r.URL+zones, http.StatusUnauthorized)
	require.JSONEq(t, `{"faults":[{"id":1,"fault":"listRegions:error:code=503","seen":0,"hits":0}]}`,
		get(t, http.DefaultClient, r.AdminURL+"/faults", http.StatusOK))
	stdout, stderr := stop()
	require.Contains(t, stdout, "CloudStack API:   "+r.URL)
	require.Contains(t, stderr, "command=listZones")
	for _, u := range r.Users {
		require.NotContains(t, stdout+stderr, u.SecretKey, "a secret was printed although keys are not to be printed")
	}
}

// TestPage checks that --ui prints an address that a browser can visit once, and that the page shows the simulator's
// calls.
func TestPage(t *testing.T) {
	t.Parallel()
	r, stop := start(t, "--ui")
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	require.Contains(t, get(t, browser, r.PageURL, http.StatusOK), "<html")
	get(t, http.DefaultClient, r.URL+zones, http.StatusUnauthorized)
	base, _, _ := strings.Cut(r.PageURL, "?")
	shown := ""
	require.Eventually(t, func() bool {
		shown = get(t, browser, base+"api/snapshot", http.StatusOK)
		return strings.Contains(shown, "listZones")
	}, time.Minute, 10*time.Millisecond)

	require.Contains(t, shown, "demo-worker-1")
	for _, u := range r.Users {
		require.NotContains(t, shown, u.APIKey)
		require.NotContains(t, shown, u.SecretKey)
	}

	stdout, _ := stop()
	require.Contains(t, stdout, r.PageURL)
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
	for flag, want := range map[string]string{
		"--print-world=fresh":   "Sandbox-simulator",
		"--print-world=example": "zone-1",
	} {
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
		`--admin-listen 0.0.0.0:0: give a loopback address`: {"--listen", "127.0.0.1:0",
			"--admin-listen", "0.0.0.0:0"},
		`--fault: fault "listZones:slow": kind "slow"`:          {"--fault", "listZones:slow"},
		`--fault: fault "listzones:error": command "listzones"`: {"--fault", "listzones:error"},
		`port forwarding by nftables needs the data path direct`: {"--data-path", "loopback",
			"--data-path-forwarding", "nftables"},
		`data path "bridge" is not known; use direct or loopback`: {"--data-path", "bridge"},
		`link br0: only the data path direct uses a link`: {"--data-path", "loopback",
			"--data-path-link", "br0"},
		`is not known; use relay or nftables`: {"--data-path", "direct",
			"--data-path-forwarding", "iptables"},
		`--data-path-members needs --data-path`: {"--data-path-members", "x.yaml"},
		`--data-path-members nope.yaml: open nope.yaml`: {"--data-path", "loopback",
			"--data-path-members", "nope.yaml"},
		`unknown command "serve"`: {"serve"},
		`--ready-file`: {"--listen", "127.0.0.1:0",
			"--ready-file", "/nonexistent/keys"},
	} {
		_, err := execute(t, args...)
		require.ErrorContains(t, err, want, "%v", args)
	}
}
