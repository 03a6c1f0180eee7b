// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

// answering is the URL of a server that gives one answer to everything.
func answering(t *testing.T, status int, contentType, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// How every command ends when a server that it needs refuses, hangs or answers garbage: a report of checks has found that
// something is wrong, everything else is an error. Each says what is wrong and what to look at, and none takes a minute.
func TestExitCodesOfServers(t *testing.T) {
	t.Parallel()
	const page = "<html><body>Please log in</body></html>"
	cloud := map[string]string{
		"refuses": answering(t, http.StatusUnauthorized, "application/json", `{"listcapabilitiesresponse":{"uuidList":[],"errorcode":401,"errortext":"unable to verify user credentials and/or request signature"}}`),
		"hangs":   silent(t),
		"garbage": answering(t, http.StatusOK, "text/html", page),
	}
	api := map[string]string{
		"refuses": answering(t, http.StatusForbidden, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`),
		"hangs":   silent(t),
		"garbage": answering(t, http.StatusOK, "text/html", page),
	}
	a := newFakeCluster(t)
	a.set("/api/v1/nodes", nodesForPlan)
	a.set("/api/v1/services", "["+serviceForPlan+"]")
	_, good := cloudConfig(t)
	withCloud := []string{"install", "migrate-rules", "takeover", "adopt", "taint", "plan", "cks list", "doctor", "status"}
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("password"), 0o600))
	withCluster := []string{
		"install", "upgrade", "rollback", "rotate-keys --admin-user admin --admin-password-file " + password, "uninstall", "migrate-rules", "takeover", "adopt",
		"taint", "plan", "doctor", "status", "test",
	}
	reports := []string{"doctor", "status"}
	ends := func(server, how, line string, args ...string) {
		// Commands that wait for a server that hangs wait at the same time, however few processors there are.
		ended := make(chan command, 1)
		var took time.Duration
		run := func() {
			began := time.Now()
			c := execute(t, append(strings.Fields(line), args...)...)
			took = time.Since(began)
			ended <- c
		}
		if how == "hangs" {
			go run()
		}
		t.Run(server+" "+how+": csccm "+line, func(t *testing.T) {
			t.Parallel()
			if how != "hangs" {
				run()
			}
			c := <-ended
			want := report.ExitFailure
			if slices.Contains(reports, line) {
				want = report.ExitCheckFailed
			}
			require.Equal(t, want, c.code, c.out+c.errOut)
			if line == "status" {
				require.Regexp(t, "csccm doctor --server .* --cloud-config .* says more, and what to do.", c.out)
			} else {
				require.Contains(t, c.out+c.errOut, "fix: ")
			}
			require.Less(t, took, 2*time.Minute)
			require.NotContains(t, c.out+c.errOut, "goroutine ")
		})
	}
	for how, url := range cloud {
		file := filepath.Join(t.TempDir(), "cloud-config")
		require.NoError(t, os.WriteFile(file, []byte("[Global]\napi-url = "+url+"/client/api\napi-key = canary-key\nsecret-key = canary-secret\n"), 0o600))
		for _, command := range withCloud {
			ends("CloudStack", how, command, "--server", a.url, "--cloud-config", file)
		}
	}
	for how, url := range api {
		for _, command := range withCluster {
			args := []string{"--server", url}
			if slices.Contains(withCloud, command) {
				args = append(args, "--cloud-config", good)
			}
			ends("API server", how, command, args...)
		}
	}
}

// silent is the URL of a server that accepts requests and never answers: a process that is stopped.
func silent(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(func() { close(over); s.Close() })
	return s.URL
}

// A CloudStack that does not answer is a failure of CS-001. What needs it is named once, and nobody waits for minutes.
func TestCloudStackHangs(t *testing.T) {
	t.Parallel()
	a := newFakeCluster(t)
	file := filepath.Join(t.TempDir(), "cloud-config")
	require.NoError(t, os.WriteFile(file, []byte("[Global]\napi-url = "+silent(t)+"/client/api\napi-key = canary-key\nsecret-key = canary-secret\n"), 0o600))
	here := []string{"--server", a.url, "--cloud-config", file}
	for name, tc := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"doctor":    {[]string{"doctor", "--skip", "NODE-004"}, 3, []string{"CS-001 API reachable", "no answer in time", "management server answers", "skipped until CS-001 passes: CS-002, CS-003,", "waiting for the API server and CloudStack"}},
		"one check": {[]string{"doctor", "--only", "NODE-002"}, 3, []string{"CS-001 API reachable", "skipped until CS-001 passes: NODE-002"}},
		"status":    {[]string{"status"}, 3, []string{"CS-001"}},
		"plan":      {[]string{"plan"}, 1, []string{"asking CloudStack at http://", "no answer in time", "management server answers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := execute(t, append(tc.args, here...)...)
			require.Equal(t, tc.code, c.code, c.out+c.errOut)
			require.Less(t, time.Since(began), time.Minute)
			for _, text := range tc.says {
				require.Contains(t, c.out+c.errOut, text)
			}
		})
	}
}
