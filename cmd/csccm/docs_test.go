// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/docs/pages"
)

// TestCommandsOfTheDocs: each `csccm ...` in a Markdown file is a command that exists, with flags that it has.
func TestCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	top, err := pages.Root()
	require.NoError(t, err)
	all, err := pages.ReadAll(top)
	require.NoError(t, err)
	commands, err := pages.Commands(all, "csccm")
	require.NoError(t, err)
	require.Greater(t, len(commands), 50)
	root := newRootCommand(cli.Streams{})
	for _, c := range commands {
		if problem := c.Problem(root); problem != "" {
			t.Error(problem)
		}
	}
}
