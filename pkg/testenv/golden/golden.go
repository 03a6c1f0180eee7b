// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golden compares the output of a test with a file in the repository.
package golden

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// File compares got with a file. With update it writes the file first. how is the command that updates the file.
func File(t *testing.T, path, got string, update bool, how string) {
	t.Helper()
	if update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755)) // #nosec G301 -- of the repository
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644)) // #nosec G306 -- for everybody
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run %s", how)
	assert.Equal(t, string(want), got, "%s: run %s", path, how)
}
