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

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/pkg/testenv/golden"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, c := range allCommands() {
		words := strings.Fields(c.CommandPath())
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			r := execute(t, append(words[1:], "--help")...)
			require.Equal(t, 0, r.code)
			require.Empty(t, r.errOut)
			golden.File(t, filepath.Join("testdata", "help", strings.Join(words, "-")+".txt"), r.out, *update,
				"go test ./cmd/csccm -update")
			for line := range strings.Lines(r.out) {
				require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 80, line)
			}
		})
	}
	require.Contains(t, execute(t, "install", "--help=all").out, "--rollout-timeout", "which --help leaves out")
}

// csccm version works without a cluster: no program listens on port 1.
func TestVersion(t *testing.T) {
	t.Parallel()
	r := execute(t, "version", "--server", "http://127.0.0.1:1", "-o", "json")
	require.Equal(t, 0, r.code)
	var v versions
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	require.NotEmpty(t, v.Client.Version)
	require.NotEmpty(t, v.Chart.AppVersion)
	require.Contains(t, v.Problem, "connection refused")
}

// doctor explains a check without a cluster, a kubeconfig or a network.
func TestDoctorExplains(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"NODE-008":              "csccm doctor --only NODE-008 -v",
		"CloudStackCCMNoLeader": `absent(leader_election_master_status{name="cloud-controller-manager"} == 1)`,
		"porttaken":             "kubectl get events -A --field-selector involvedObject.kind=Service,reason=PortTaken",
		"CloudStackError":       "Reason of a condition of a Service",
	} {
		c := execute(t, "--server", "http://127.0.0.1:1", "doctor", "--explain", name)
		require.Equal(t, 0, c.code, name+c.errOut)
		require.Empty(t, c.errOut, name)
		require.Contains(t, c.out, want, name)
		require.Contains(t, c.out, "How to end it", name)
	}

	c := execute(t, "doctor", "--explain", "InvalidAnnotation", "-o", "json")
	require.Equal(t, 2, strings.Count(c.out, `"kind"`), "on Services and on Nodes: %s", c.out)
	c = execute(t, "__complete", "doctor", "--explain", "")
	for _, name := range []string{"CloudStackCCMDrift\talert", "PortTaken\tevent", "Waiting\tcondition",
		"LB-003\tcheck"} {
		require.Contains(t, c.out, name)
	}
}

// The first ^C cancels the context, the second ends the process. Signals affect the whole process, so this test is not
// parallel.
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
	require.Contains(t, errOut.String(), "press ^C again to stop at once")
	require.Equal(t, 130, cli.ExitCode(cli.Classify(ctx, context.Canceled)))
}

// A command that another command runs in a cluster prints its results on stderr, because the other command owns stdout.
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
