// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	silenceLibraryLogs()
	cli.CompletionTimeout, versionTimeout = time.Minute, time.Minute
	os.Exit(m.Run())
}

// command is a csccm command line with what it printed.
type command struct {
	code        int
	out, errOut string
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for pair := range slices.Chunk(pairs, 2) {
			if pair[0] == name {
				return pair[1]
			}
		}
		return ""
	}
}

// execute runs csccm without a terminal.
func execute(t *testing.T, args ...string) command {
	t.Helper()
	return executeIn(t, environment(), args...)
}

func executeIn(t *testing.T, getenv func(string) string, args ...string) command {
	t.Helper()
	var out, errOut bytes.Buffer
	s := cli.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, Getenv: getenv}
	code := run(append([]string{"csccm"}, args...), s, func(int) { t.Error("ended at once") })
	return command{code, out.String(), errOut.String()}
}

// kubeconfig writes a configuration with one context, test, of a server that nobody can reach.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(`
apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: http://127.0.0.1:1}}]
users: [{name: test, user: {}}]
`), 0o600))
	return path
}
