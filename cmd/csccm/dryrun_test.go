// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/taint"
)

// changing are the commands that change the cluster or CloudStack. install, upgrade and rollback have the API server
// judge objects with --dry-run=server.
var changing = map[string]bool{
	"install": true, "upgrade": true, "rollback": true,
	"uninstall": false, "rotate-keys": false, "takeover": false, "adopt": false, "taint": false, "migrate-rules": false, "test": false,
}

// requireMissingYes is exit code 2, which names --yes and what it would do.
func requireMissingYes(t *testing.T, c command, would string) {
	t.Helper()
	require.Equal(t, 2, c.code, c.errOut)
	require.Contains(t, c.errOut, "error: nothing has been changed: --yes, which would "+would+", is not given, and there is no terminal to ask on\n  fix: add --yes")
}

// --dry-run means the same in every command, and the help of those to which server makes no difference says so.
func TestDryRunMeansTheSameEverywhere(t *testing.T) {
	t.Parallel()
	root := newRootCommand(streams{getenv: environment()})
	var found []string
	for _, c := range everyCommand(root) {
		flag := c.Flags().Lookup("dry-run")
		if flag == nil {
			continue
		}
		found = append(found, c.Name())
		require.Equal(t, dryRunUsage, flag.Usage, c.Name())
		require.Equal(t, "client", flag.NoOptDefVal, c.Name())
		require.Empty(t, flag.DefValue, c.Name())
		server, known := changing[c.Name()]
		require.True(t, known, c.Name())
		require.Equal(t, !server, strings.Contains(c.Long, "--dry-run=server does the same"), c.Name())
	}
	require.Len(t, found, len(changing))
}

func TestDryRunValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[dryRun][2]bool{"": {}, "false": {}, "client": {true, false}, "true": {true, false}, "server": {true, true}} {
		dry, server, err := value.read()
		require.NoError(t, err, value)
		require.Equal(t, want, [2]bool{dry, server}, value)
	}
	for command := range changing {
		c := execute(t, command, "--dry-run=all")
		require.Equal(t, 2, c.code, "%s: %s", command, c.errOut)
		require.Contains(t, c.errOut, "--dry-run=all is not known; there are --dry-run=client and --dry-run=server", command)
	}
	for _, command := range []string{"takeover", "taint", "migrate-rules"} {
		for _, flag := range []string{"--dry-run", "--dry-run=server", "--dry-run=true"} {
			c := execute(t, command, "--yes", flag)
			require.Equal(t, 2, c.code, "%s: %s", command, c.errOut)
			require.Contains(t, c.errOut, "exclude each other", command)
		}
	}
}

// Without a terminal and without --yes taint changes nothing, and names the flag.
func TestTaintNeedsYes(t *testing.T) {
	t.Parallel()
	a, sim, file := leftCluster(t)
	a.set("/apis/apps/v1/deployments", `[]`)
	a.set("/api/v1/nodes", `[{"metadata":{"name":"node-1"}},{"metadata":{"name":"node-2"}}]`)
	a.set("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
	base := []string{"taint", "--server", a.url, "--cloud-config", file, "--skip-gate", strings.Join(taint.Gates(), ",")}
	c := execute(t, append(slices.Clone(base), "--dry-run")...)
	require.Equal(t, 0, c.code, c.errOut)
	requireMissingYes(t, execute(t, base...), "taint 2 nodes")
	for _, call := range sim.Ledger().Calls() {
		require.Regexp(t, "^list", call.Command)
	}
}
