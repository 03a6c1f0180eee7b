// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// changers are the commands that change the cluster or CloudStack. install, upgrade and rollback have the API server
// judge objects with --dry-run=server.
var changers = map[string]bool{
	"install": true, "upgrade": true, "rollback": true,
	"uninstall": false, "rotate-keys": false, "takeover": false, "adopt": false, "register": false, "unregister": false,
	"taint": false, "migrate-rules": false, "test": false, "iso": false,
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
		server, known := changers[c.Name()]
		require.True(t, known, c.Name())
		require.Equal(t, !server, strings.Contains(c.Long, "--dry-run=server does the same"), c.Name())
	}
	require.Len(t, found, len(changers))
}
