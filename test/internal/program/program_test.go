// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockIsExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, func() { t.Error("the first holder waits") })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Lock(ctx, path, cancel); err == nil {
		t.Error("a second holder got the lock")
	}
	unlock()
	again, err := Lock(t.Context(), path, func() {})
	require.NoError(t, err)
	again()
}

// TestCachedBySources: a program whose sources change is built again.
func TestCachedBySources(t *testing.T) {
	t.Parallel()
	p := Program{What: "a program", Name: "p", Folder: "f", Release: "v1", Source: t.TempDir()}
	paths := map[string]bool{}
	for _, c := range []struct{ file, text string }{{"go.mod", "module m\n"}, {"main.go", "package main\n"}, {"sub/go.mod", "module sub\n"}, {"sub/go.mod", "module two\n"}} {
		file := filepath.Join(p.Source, filepath.FromSlash(c.file))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		for range 2 {
			path, there, err := p.Cached(t.Context())
			if err != nil || there {
				t.Fatalf("%s: %t, %v", path, there, err)
			}
			paths[path] = true
		}
	}
	if len(paths) != 4 {
		t.Errorf("the paths are %v, want one for each state of the sources", paths)
	}
}
