// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSections(t *testing.T) {
	t.Parallel()
	have, err := Sections([]byte(`# File comment.

## @section One

# -- A number,
# on two lines.
a: 1

# Not for the README.

b:
  # -- Below <b>.
  c: "<x>"
  # -- A mapping that is one value.
  d: {}

## @section Two

# -- Long.
e: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, aaaaaaaaaaaaa]
`))
	require.NoError(t, err)
	assert.Equal(t, []Section{
		{"One", []Value{
			{"a", "1", "A number, on two lines."},
			{"b.c", "\"<x>\"", "Below <b>."},
			{"b.d", "{}", "A mapping that is one value."},
		}},
		{"Two", []Value{{"e", `["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaa"]`, "Long."}}},
	}, have)
	assert.Equal(t, "`1`", have[0].Values[0].Shown())
	assert.Equal(t, "see values.yaml", have[1].Values[0].Shown())
}

func TestSectionsWrong(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"want a mapping":                          "- a\n",
		`no "## @section" comment`:                "a: 1\n",
		"a is before the first section":           "a: 1\n## @section X\n# -- b\nb: 1\n",
		`a.b (line 3) has no comment that starts`: "## @section X\na:\n  b: 1\n",
		`a (line 2) has no comment that starts`:   "## @section X\na: {}\n",
	} {
		_, err := Sections([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

func TestGenerateEscapesTables(t *testing.T) {
	t.Parallel()
	page, err := Generate(fstest.MapFS{
		"Chart.yaml":  {Data: []byte("name: x\ndescription: Text.\nkubeVersion: '>=1'\n")},
		"values.yaml": {Data: []byte("## @section S\n# -- One | two.\na: b\n")},
	}, readmePage)
	require.NoError(t, err)
	assert.Contains(t, string(page), "| `a` | `\"b\"` | One \\| two. |\n")
}

func TestRunChecksAndWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	values := filepath.Join(dir, "values.md")
	require.EqualError(t, run([]string{dir}, false), "want two arguments: the chart's directory and the page of its values")
	require.Error(t, run([]string{dir, values}, false))
	for name, text := range map[string]string{
		"Chart.yaml": "name: x\n", "values.yaml": "## @section S\n# -- A.\na: b\n", "README.md": "old", "values.md": "old",
		"values.schema.json": `{"properties": {"a": {"type": "string"}}}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.ErrorContains(t, run([]string{dir, values}, true), "is not up to date: run go generate ./charts")
	require.NoError(t, run([]string{dir, values}, false))
	require.NoError(t, run([]string{dir, values}, true))
	require.NoError(t, os.WriteFile(values, []byte("old"), 0o644))
	require.ErrorContains(t, run([]string{dir, values}, true), "values.md is not up to date")
}
