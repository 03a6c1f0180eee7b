// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/csccm/csccm/installer/engine/report"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	silenceLibraryLogs()
	completionTimeout, versionTimeout = time.Minute, time.Minute
	os.Exit(m.Run())
}

type ran struct {
	code     int
	out, err string
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// csccm runs the command without a terminal.
func csccm(t *testing.T, stdin string, getenv func(string) string, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	s := streams{in: strings.NewReader(stdin), out: &out, errOut: &errOut, getenv: getenv}
	code := run(append([]string{"csccm"}, args...), s, func(int) { t.Error("ended at once") })
	return ran{code, out.String(), errOut.String()}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "help", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test ./cmd/csccm -update")
	require.Equal(t, string(want), got, "run go test ./cmd/csccm -update")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	root := newRootCommand(streams{getenv: environment()})
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		words := strings.Fields(c.CommandPath())
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			r := csccm(t, "", environment(), append(words[1:], "--help")...)
			require.Equal(t, 0, r.code)
			require.Empty(t, r.err)
			golden(t, strings.Join(words, "-"), r.out)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

func everyCommand(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

// No flag takes a secret: command lines are seen by everybody on the machine.
func TestNoFlagTakesASecret(t *testing.T) {
	t.Parallel()
	root := newRootCommand(streams{getenv: environment()})
	for _, c := range everyCommand(root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if c == root || f.Name == "token" { // kubectl's own, hidden
				return
			}
			secret := strings.Contains(f.Name, "password") || strings.Contains(f.Name, "key")
			if secret && !strings.HasSuffix(f.Name, "-file") && !strings.HasSuffix(f.Name, "-stdin") && !f.Hidden {
				t.Errorf("%s --%s takes a secret on the command line", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(file, []byte("word-canary\nmore-canary\n"), 0o600))
	tests := map[string]struct {
		args []string
		err  string
	}{
		"unknown command":      {[]string{"instal"}, `unknown command "instal", did you mean install?`},
		"swapped letters":      {[]string{"statsu"}, `unknown command "statsu", did you mean status?`},
		"unknown flag":         {[]string{"install", "--bogus"}, "unknown flag: --bogus"},
		"password in argv":     {[]string{"install", "--admin-password", "word-canary"}, "unknown flag: --admin-password"},
		"argument":             {[]string{"install", "word-canary"}, "csccm install takes no arguments"},
		"colour":               {[]string{"version", "--color", "red"}, `"red" is not one of auto, always, never`},
		"output":               {[]string{"version", "-o", "xml"}, `-o "xml" is none of text, json, yaml`},
		"negative timeout":     {[]string{"version", "--timeout", "-1s"}, "--timeout -1s is negative"},
		"no shell":             {[]string{"completion"}, "name one shell"},
		"unknown shell":        {[]string{"completion", "tcsh"}, `no completion for shell "tcsh"`},
		"dry run":              {[]string{"install", "--dry-run=both"}, "--dry-run=both is not known"},
		"parallel":             {[]string{"install", "--max-parallel", "0"}, "--max-parallel 0 must be 1 or more"},
		"unknown check":        {[]string{"install", "--skip-check", "NOPE-1"}, "--skip-check"},
		"two sources":          {[]string{"install", "--admin-user", "a", "--api-key-file", file}, "both given"},
		"two passwords":        {[]string{"install", "--admin-password-file", file, "--admin-password-stdin"}, "both given"},
		"no such file":         {[]string{"install", "--admin-user", "a", "--admin-password-file", dir + "/none"}, "--admin-password-file: cannot read"},
		"file is no secret":    {[]string{"install", "--admin-user", "a", "--admin-password-file", file}, "that is not one line of text"},
		"empty stdin":          {[]string{"install", "--admin-user", "a", "--admin-password-stdin"}, "--admin-password-stdin: the secret is empty"},
		"cloud-config":         {[]string{"install", "--cloud-config", file}, "--cloud-config"},
		"values":               {[]string{"install", "--set", "nothing"}, "--set nothing"},
		"version without one":  {[]string{"install", "--version", "1.2.3"}, "--version needs --chart"},
		"doctor, bad severity": {[]string{"doctor", "--fail-on", "fatal"}, "--fail-on"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := csccm(t, "", environment(), tc.args...)
			require.Equal(t, 2, r.code, r.err)
			require.True(t, strings.HasPrefix(r.err, "error: "), r.err)
			require.Contains(t, r.err, tc.err)
			require.Contains(t, r.err, "\n  fix: ")
			require.Equal(t, 2, strings.Count(r.err, "\n"), "one line of what, one of how to go on: %s", r.err)
			require.Empty(t, r.out)
			require.NotContains(t, r.err, "canary")
		})
	}
}

// apiServer answers as the API server of an empty cluster.
func apiServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	answers := map[string]any{
		"/version": version.Info{GitVersion: "v1.37.1", Major: "1", Minor: "37"},
		"/api/v1/nodes": corev1.NodeList{
			TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"},
		},
		"/api/v1/namespaces/kube-system/secrets": corev1.SecretList{
			TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"},
		},
		"/api/v1/namespaces/kube-system/pods": corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}},
		"/apis/apps/v1/deployments":           appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{Kind: "DeploymentList", APIVersion: "apps/v1"}},
		"/apis/apps/v1/daemonsets":            appsv1.DaemonSetList{TypeMeta: metav1.TypeMeta{Kind: "DaemonSetList", APIVersion: "apps/v1"}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if r.Method != http.MethodGet {
			t.Errorf("%s %s: nothing may be changed", r.Method, r.URL.Path)
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
`, server.URL), 0o600))
	return path
}

// Without a terminal install names the flag that is missing.
func TestInstallWithoutTerminal(t *testing.T) {
	t.Parallel()
	kubeconfig := apiServer(t)
	tests := map[string]struct {
		args []string
		env  func(string) string
		err  string
		fix  string
	}{
		"nothing":    {nil, environment(), "error: Credentials for the controller: not given, and there is no terminal to ask on", "fix: add --admin-user USER"},
		"no url":     {[]string{"--admin-user", "admin"}, environment(), "error: URL of the CloudStack API: not given", "fix: add --api-url"},
		"no account": {[]string{"--admin-user", "admin", "--api-url", "http://127.0.0.1:1/client/api"}, environment("CSCCM_ADMIN_PASSWORD", "word-canary"), "error: Account that owns", "fix: add --account"},
		"password": {
			[]string{"--admin-user", "admin", "--api-url", "http://127.0.0.1:1/client/api", "--account", "k8s"},
			environment(), "error: Password of admin: not given", "--admin-password-file FILE",
		},
		"one key of the environment": {
			[]string{"--api-url", "http://127.0.0.1:1/client/api"},
			environment("CLOUDSTACK_API_KEY", "key-canary"), "error: Secret key: not given", "--secret-key-file",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := csccm(t, "", tc.env, append([]string{"install", "--kubeconfig", kubeconfig}, tc.args...)...)
			require.Equal(t, 2, r.code, r.err)
			require.Contains(t, r.err, tc.err)
			require.Contains(t, r.err, tc.fix)
			require.NotContains(t, r.err+r.out, "canary")
		})
	}
}

func TestUnreachableCloudStack(t *testing.T) {
	t.Parallel()
	r := csccm(t, "word-canary\n", environment(), "install", "--kubeconfig", apiServer(t), "--admin-user", "admin",
		"--admin-password-stdin", "--api-url", "http://127.0.0.1:1/client/api", "--account", "k8s", "--yes")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "error: no CloudStack API answers at http://127.0.0.1:1/client/api")
	require.Contains(t, r.err, "  fix: check --api-url")
	require.NotContains(t, r.err, "canary")
}

func TestUnreachableCluster(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"install", "doctor"} {
		r := csccm(t, "", environment(), command, "--server", "http://127.0.0.1:1")
		require.NotEqual(t, 0, r.code, command)
		require.Contains(t, r.err+r.out, "connection refused", command)
		require.Contains(t, r.err+r.out, "fix: ", command)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := csccm(t, "", environment(), "version", "--kubeconfig", apiServer(t))
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "cluster     Kubernetes v1.37.1\ncontroller  not installed\n")

	r = csccm(t, "", environment(), "version", "--server", "http://127.0.0.1:1", "-o", "json")
	require.Equal(t, 0, r.code, "what csccm is, is known without a cluster")
	var v versions
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	require.NotEmpty(t, v.Client.Version)
	require.NotEmpty(t, v.Chart.AppVersion)
	require.Contains(t, v.Problem, "connection refused")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := csccm(t, "", environment(), "completion", shell)
		require.Equal(t, 0, r.code, shell)
		require.Contains(t, r.out, "csccm", shell)
	}
	r := csccm(t, "", environment(), "__complete", "install", "-o", "")
	require.Contains(t, r.out, "text\njson\n")
	r = csccm(t, "", environment(), "__complete", "--kubeconfig", apiServer(t), "version", "--context", "")
	require.Contains(t, r.out, "test\n")
}

func TestPluginName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "csccm", pluginName("/usr/bin/kubectl-csccm"))
	require.Equal(t, "csccm", pluginName(`kubectl-csccm.exe`))
	require.Empty(t, pluginName("/usr/bin/csccm"))
	var out bytes.Buffer
	s := streams{in: strings.NewReader(""), out: &out, errOut: &out, getenv: environment()}
	require.Equal(t, 2, run([]string{"kubectl-csccm", "install", "--bogus"}, s, nil))
	require.Contains(t, out.String(), "fix: see kubectl csccm install --help")
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{usagef("x"), 2},
		{fmt.Errorf("doing: %w", &report.ExitError{Code: 3}), 3},
		{fmt.Errorf("doing: %w", errTimeout), 124},
		{fmt.Errorf("doing: %w", errInterrupted), 130},
	} {
		require.Equal(t, tc.want, exitCode(tc.err), "%v", tc.err)
	}
}

// A time-out names its flag, and has its own exit code.
func TestTimeout(t *testing.T) {
	t.Parallel()
	g := newGlobals(streams{getenv: environment()})
	g.timeout = time.Nanosecond
	cmd := &cobra.Command{RunE: g.runE(func(ctx context.Context, _ []string) error {
		<-ctx.Done()
		return fmt.Errorf("waiting: %w", ctx.Err())
	})}
	cmd.SetContext(t.Context())
	err := cmd.RunE(cmd, nil)
	require.ErrorContains(t, err, "timed out after 1ns (--timeout): waiting")
	require.Equal(t, 124, exitCode(err))
}

// The first ^C cancels, the second ends the process. Signals are the whole
// process's, so this test is not parallel.
func TestSignals(t *testing.T) {
	var errOut bytes.Buffer
	died := make(chan int, 1)
	ctx, stop := interruptible(t.Context(), &errOut, func(code int) { died <- code })
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), errInterrupted)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	require.Equal(t, 130, <-died)
	stop()
	require.Contains(t, errOut.String(), "once more to end at once")
	require.Equal(t, 130, exitCode(classify(ctx, context.Canceled)))
}
