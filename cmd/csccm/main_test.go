// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/version"
)

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
	root := newRootCommand(cli.Streams{Getenv: environment()})
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		words := strings.Fields(c.CommandPath())
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			r := execute(t, append(words[1:], "--help")...)
			require.Equal(t, 0, r.code)
			require.Empty(t, r.errOut)
			golden(t, strings.Join(words, "-"), r.out)
			for line := range strings.Lines(r.out) {
				require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 80, line)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// The help of install is one screen of flags; --help=all has the others.
func TestHelpOfInstall(t *testing.T) {
	t.Parallel()
	r := execute(t, "install", "--help")
	_, flags, _ := strings.Cut(r.out, "\nFlags:\n")
	require.LessOrEqual(t, strings.Count(flags, "\n"), 45, flags)
	require.NotContains(t, r.out, "--rollout-timeout")
	r = execute(t, "install", "--help=all")
	require.Equal(t, 0, r.code, r.errOut)
	require.Contains(t, r.out, "--rollout-timeout")
	r = execute(t, "--help")
	require.Regexp(t, `(?s)Install:.*Operate:.*Migrate:.*CKS:.*Other:`, r.out)
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
	root := newRootCommand(cli.Streams{Getenv: environment()})
	for _, c := range everyCommand(root) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if c == root || f.Name == "token" || f.Name == "keypair" { // kubectl's own, hidden; the name of a key that CloudStack has
				return
			}
			secret := strings.Contains(f.Name, "password") || strings.Contains(f.Name, "key")
			if secret && !strings.HasSuffix(f.Name, "-file") && !strings.HasSuffix(f.Name, "-stdin") && !f.Hidden {
				t.Errorf("%s --%s takes a secret on the command line", c.CommandPath(), f.Name)
			}
		})
	}
}

// Without a terminal install names the flag that is missing.
func TestInstallWithoutTerminal(t *testing.T) {
	t.Parallel()
	kubeconfig := newFakeCluster(t).kubeconfig(t)
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
			r := executeIn(t, tc.env, append([]string{"install", "--kubeconfig", kubeconfig}, tc.args...)...)
			require.Equal(t, 2, r.code, r.errOut)
			require.Contains(t, r.errOut, tc.err)
			require.Contains(t, r.errOut, tc.fix)
			require.NotContains(t, r.errOut+r.out, "canary")
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := execute(t, "version", "--kubeconfig", newFakeCluster(t).kubeconfig(t))
	require.Equal(t, 0, r.code, r.errOut)
	require.Contains(t, r.out, "cluster     Kubernetes v1.37.1\ncontroller  not installed\n")

	r = execute(t, "version", "--server", "http://127.0.0.1:1", "-o", "json")
	require.Equal(t, 0, r.code, "what csccm is, is known without a cluster")
	var v version.Versions
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	require.NotEmpty(t, v.Client.Version)
	require.NotEmpty(t, v.Chart.AppVersion)
	require.Contains(t, v.Problem, "connection refused")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := execute(t, "completion", shell)
		require.Equal(t, 0, r.code, shell)
		require.Contains(t, r.out, "csccm", shell)
	}
	r := execute(t, "__complete", "install", "-o", "")
	require.Contains(t, r.out, "text\njson\n")
	r = execute(t, "__complete", "--kubeconfig", newFakeCluster(t).kubeconfig(t), "version", "--context", "")
	require.Contains(t, r.out, "test\n")
}

// The first ^C cancels, the second ends the process. Signals are the whole
// process's, so this test is not parallel.
func TestSignals(t *testing.T) {
	var errOut bytes.Buffer
	died := make(chan int, 1)
	ctx, stop := interruptible(t.Context(), &errOut, func(code int) { died <- code })
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), cli.ErrInterrupted)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	require.Equal(t, 130, <-died)
	stop()
	require.Contains(t, errOut.String(), "once more to end at once")
	require.Equal(t, 130, cli.ExitCode(cli.Classify(ctx, context.Canceled)))
}

// A password that was read from standard input is in no message.
func TestPasswordFromStandardInputStaysSecret(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	s := cli.Streams{In: strings.NewReader("word-canary\n"), Out: &out, ErrOut: &errOut, Getenv: environment()}
	code := run([]string{
		"csccm", "install", "--server", newFakeCluster(t).url, "--admin-user", "admin", "--admin-password-stdin",
		"--api-url", "http://127.0.0.1:1/client/api", "--account", "k8s", "--yes",
	}, s, func(int) { t.Error("ended at once") })
	require.Equal(t, 1, code)
	require.Contains(t, errOut.String(), "error: no CloudStack API answers at http://127.0.0.1:1/client/api")
	require.NotContains(t, errOut.String()+out.String(), "canary")
}
