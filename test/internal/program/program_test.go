// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCachedBySources: a program whose sources change is built again.
func TestCachedBySources(t *testing.T) {
	t.Parallel()
	p, paths := Program{Source: t.TempDir()}, map[string]bool{}
	for _, text := range []string{"module one", "module two", "module two"} {
		require.NoError(t, os.WriteFile(filepath.Join(p.Source, "go.mod"), []byte(text), 0o600))
		path, _, err := p.Cached(t.Context())
		require.NoError(t, err)
		paths[path] = true
	}
	assert.Len(t, paths, 2)
}
