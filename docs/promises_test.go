// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/exitcodes"
)

// namedTest is a test as promises.md and exit-codes.md name it: its function and its folder.
var namedTest = regexp.MustCompile("`(Test[A-Za-z0-9]+)` \\(([a-z0-9/]+)\\)")

// Every row of the tables has tests, and every test that is named exists.
func TestPromisesHaveTheirTests(t *testing.T) {
	t.Parallel()
	root, _, _ := read(t)
	for page, rows := range map[string]int{"promises.md": 9 + 4, "exit-codes.md": len(exitcodes.Lines())} {
		text, err := os.ReadFile(page) // #nosec G304 -- a page beside this test
		require.NoError(t, err)
		seen, inTable := 0, false
		for line := range strings.Lines(string(text)) {
			inTable = strings.HasPrefix(line, "|") && (inTable || strings.Contains(line, "| tests |"))
			if !inTable || !strings.HasPrefix(line, "| ") || strings.Contains(line, "| tests |") {
				continue
			}
			seen++
			tests := namedTest.FindAllStringSubmatch(line, -1)
			require.NotEmpty(t, tests, "%s: a row without a test: %s", page, line)
			for _, m := range tests {
				require.True(t, hasTest(t, filepath.Join(root, filepath.FromSlash(m[2])), m[1]), "%s: there is no %s in %s", page, m[1], m[2])
			}
		}
		require.Equal(t, rows, seen, page)
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f) // #nosec G304 -- a source of this repository
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
