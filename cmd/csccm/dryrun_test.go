// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
)

// changers are the commands that change the cluster or CloudStack. install, upgrade and rollback have the API server
// judge objects with --dry-run=server.
var changers = map[string]bool{
	"install": true, "upgrade": true, "rollback": true,
	"uninstall": false, "rotate-keys": false, "takeover": false, "adopt": false, "register": false, "unregister": false,
	"taint": false, "migrate-rules": false, "test": false, "cks iso": false,
	"cks create": false, "cks scale": false, "cks upgrade": false, "cks start": false, "cks stop": false, "cks delete": false,
	"cks versions add": false, "cks versions enable": false, "cks versions disable": false, "cks versions delete": false,
}

// --dry-run means the same in every command, and the help of those to which server makes no difference says so.
func TestDryRunMeansTheSameEverywhere(t *testing.T) {
	t.Parallel()
	root := newRootCommand(cli.Streams{Getenv: environment()})
	var found []string
	for _, c := range everyCommand(root) {
		flag := c.Flags().Lookup("dry-run")
		if flag == nil {
			continue
		}
		name := strings.TrimPrefix(c.CommandPath(), "csccm ")
		found = append(found, name)
		require.Equal(t, cli.DryRunUsage, flag.Usage, name)
		require.Equal(t, "client", flag.NoOptDefVal, name)
		require.Empty(t, flag.DefValue, name)
		server, known := changers[name]
		require.True(t, known, name)
		require.Equal(t, !server, strings.Contains(c.Long, "--dry-run=server does the same"), name)
	}
	require.Len(t, found, len(changers))
}
