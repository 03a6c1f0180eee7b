// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// Both generated files have each description. The generator of the schema drops a further line of a comment with two dashes.
func TestDescriptionsAreInTheSchema(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../cloudstack-ccm/values.yaml")
	require.NoError(t, err)
	sections, err := Sections(raw)
	require.NoError(t, err)
	schema, err := os.ReadFile("../../cloudstack-ccm/values.schema.json")
	require.NoError(t, err)
	for _, section := range sections {
		for _, value := range section.Values {
			text, err := json.Marshal(value.Text)
			require.NoError(t, err)
			require.Contains(t, string(schema), `"description": `+string(text), "%s: run go generate ./charts", value.Path)
		}
	}
}

// The README of the chart is what its values.yaml says.
func TestReadmeIsFresh(t *testing.T) {
	t.Parallel()
	require.NoError(t, run([]string{"../../cloudstack-ccm"}, true))
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.EqualError(t, run(nil, false), "want one argument: the chart's directory")
	require.Error(t, run([]string{dir}, false))
	for name, text := range map[string]string{
		"Chart.yaml": "name: x\n", "values.yaml": "## @section S\n# -- A | one\n# on two lines.\na: '<x>'\n", "README.md": "old",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.ErrorContains(t, run([]string{dir}, true), "is not up to date: run go generate ./charts")
	require.NoError(t, run([]string{dir}, false))
	require.NoError(t, run([]string{dir}, true))
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "| `a` | `\"<x>\"` | A \\| one on two lines. |\n")
}
