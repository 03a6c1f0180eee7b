// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArchitectureNamesEveryPackage: no package is missing in docs/architecture.md, and none is in it that is gone.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	root, _, byPath := read(t)
	named := map[string]bool{}
	for _, c := range byPath["docs/architecture.md"].Code {
		if c.Inline {
			named[c.Text] = true
		}
	}
	require.Greater(t, len(named), 40)
	for _, parent := range []string{"cmd", "pkg", "installer", "test"} {
		entries, err := os.ReadDir(filepath.Join(root, parent))
		require.NoError(t, err)
		for _, e := range entries {
			name := parent + "/" + e.Name()
			if e.IsDir() && hasGo(t, filepath.Join(root, filepath.FromSlash(name))) && !named[name] {
				t.Errorf("docs/architecture.md does not name `%s`", name)
			}
		}
	}
	folder := regexp.MustCompile(`^(cmd|pkg|installer|charts|release|test|docs)/[a-z/-]+$`)
	for name := range named {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); folder.MatchString(name) && err != nil {
			t.Errorf("docs/architecture.md names `%s`, which does not exist", name)
		}
	}
}

// hasGo tells whether a folder itself holds Go code.
func hasGo(t *testing.T, dir string) bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".go") })
}
