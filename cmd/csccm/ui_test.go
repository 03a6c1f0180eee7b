// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

// TestUI starts the program, visits the page as a browser does, and ends it by ^C. Nothing is changed and no secret is
// in any answer.
func TestUI(t *testing.T) {
	t.Parallel()
	args, keys := canaryCluster(t)
	cmd, stderr := process(t, t.TempDir(), append([]string{"ui", "--no-open"}, args...)...)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, stderr)
	url = strings.TrimSpace(url)
	base, _, ok := strings.Cut(url, "/?token=")
	require.True(t, ok, url)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	get := func(url string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		resp, err := browser.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	code, _ := get(base + "/api/snapshot")
	require.Equal(t, http.StatusForbidden, code)
	code, page := get(url)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, "<html")
	var all string
	require.Eventually(t, func() bool { // the checks come when they have ended
		code, all = get(base + "/api/snapshot")
		return code == http.StatusOK && strings.Contains(all, `"checks":[`)
	}, time.Minute, 50*time.Millisecond)
	require.Contains(t, all, `"id":"service/shop/checkout"`)
	require.Contains(t, all, "SyncLoadBalancerFailed")
	for _, secret := range append(keys, "canaryevent99", "canarysignature12", "canary-env", "canary-arg") {
		require.NotContains(t, all+page, secret)
	}
	browser.CloseIdleConnections()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	ended = true
	require.Equal(t, report.ExitInterrupted, codeOf(t, cmd.Wait()), stderr)
	require.NotContains(t, stderr.String(), "error:")
	require.NotContains(t, stderr.String(), "token=")
}

func TestUIExport(t *testing.T) {
	t.Parallel()
	args, keys := canaryCluster(t)
	path := filepath.Join(t.TempDir(), "map.html")
	c := execute(t, append([]string{"ui", "--export", path}, args...)...)
	require.Equal(t, 0, c.code, c.errOut)
	require.Equal(t, path+"\n", c.out)
	body, err := os.ReadFile(path) // #nosec G304 -- a file of the test
	require.NoError(t, err)
	require.Contains(t, string(body), "checkout")
	require.NotContains(t, string(body), "<script")
	for _, secret := range append(keys, "canaryevent99") {
		require.NotContains(t, string(body), secret)
	}
	c = execute(t, append([]string{"ui", "--export", "-"}, args...)...)
	require.Equal(t, 0, c.code, c.errOut)
	require.True(t, strings.HasPrefix(c.out, "<!doctype html>"))
}
