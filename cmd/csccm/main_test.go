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

	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

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
			golden.File(t, filepath.Join("testdata", "help", strings.Join(words, "-")+".txt"), r.out, *update, "go test ./cmd/csccm -update")
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

func TestVersion(t *testing.T) {
	t.Parallel()
	r := execute(t, "version", "--server", "http://127.0.0.1:1", "-o", "json")
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
		r := execute(t, "completion", shell)
		require.Equal(t, 0, r.code, shell)
		require.Contains(t, r.out, "csccm", shell)
	}
	r := execute(t, "__complete", "install", "-o", "")
	require.Contains(t, r.out, "text\njson\n")
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

// A command that another one runs in a cluster of its own prints its results on stderr: the result of the command is the other's.
func TestCommandInsideAnother(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	g := cli.New(cli.Streams{Out: &out, ErrOut: &errOut, Getenv: environment()})
	in := g.Inside(&rest.Config{Host: "https://192.0.2.1"}, "cks-create-install")
	_, err := in.Out.Write([]byte("installed"))
	require.NoError(t, err)
	require.Empty(t, out.String())
	require.Equal(t, "installed", errOut.String())
	require.Equal(t, "https://192.0.2.1", *in.Kube.APIServer)
}
