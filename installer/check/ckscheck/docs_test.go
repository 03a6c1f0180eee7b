// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package ckscheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocs: docs/cks.md names the codes and references of this package, and no others.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/cks.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| code |")
	require.True(t, found)
	code := regexp.MustCompile(`c\.add\((?:s|Error|Warning), "([a-z-]+)"`)
	codes := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range code.FindAllStringSubmatch(string(source), -1) {
			codes[m[1]] = true
			require.Contains(t, table, "`"+m[1]+"`", file)
		}
	}

	documented := map[string]string{} // the row of each code
	for _, row := range strings.Split(table, "\n") {
		for _, m := range regexp.MustCompile("`([a-z]+(?:-[a-z]+)*)`").FindAllStringSubmatch(row, -1) {
			require.True(t, codes[m[1]], "no rule has the code %s", m[1])
			documented[m[1]] = row
		}
	}

	for code, reference := range references {
		require.Contains(t, documented[code], reference, code)
	}
}
