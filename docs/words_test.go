// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// glossaryWords matches a row of the glossary that names words to avoid.
var glossaryWords = regexp.MustCompile(`(?m)^\| \*\*(.*)\*\* \|.*\| (.+) \|$`)

// Pages, Events and the packages whose words the glossary defines use the word of the glossary and none of the words
// that it says to avoid.
func TestGlossary(t *testing.T) {
	t.Parallel()
	const glossary = "docs/contributing/architecture.md"
	root, all, _ := read(t)
	text, err := os.ReadFile(filepath.Join(root, glossary))
	require.NoError(t, err)
	avoid := map[string]string{}
	for _, row := range glossaryWords.FindAllStringSubmatch(string(text), -1) {
		for word := range strings.SplitSeq(row[2], ", ") {
			avoid[word] = row[1]
		}
	}
	require.Greater(t, len(avoid), 10)

	check := func(name string) {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for word, instead := range avoid {
			require.NotContains(t, strings.ToLower(string(text)), word, "%s: write %q instead of %q", name, instead,
				word)
		}
	}
	for _, page := range all {
		if page.Path != glossary {
			check(page.Path)
		}
	}

	for _, folder := range []string{"pkg/service", "pkg/loadbalancer", "pkg/node", "pkg/evidence", "installer/engine"} {
		require.NoError(t, fs.WalkDir(os.DirFS(root), folder, func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				check(name)
			}
			return err
		}))
	}
}
