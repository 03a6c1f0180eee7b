// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSchema(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"values.yaml": {Data: []byte("## @section S\n# -- One <two>.\nz: 5\na:\n  # -- Below.\n  b: [x, {k: true}]\n")},
		"values.schema.json": {Data: []byte(`{
			"title": "t",
			"properties": {
				"z": {"description": "old", "type": "integer", "maximum": 65535},
				"a": {"properties": {"b": {"type": "array"}}},
				"refused": {}
			}
		}`)},
	}
	have, err := Schema(files)
	require.NoError(t, err)
	const want = `{
  "title": "t",
  "properties": {
    "z": {
      "description": "One <two>.",
      "type": "integer",
      "maximum": 65535,
      "default": 5
    },
    "a": {
      "properties": {
        "b": {
          "type": "array",
          "description": "Below.",
          "default": [
            "x",
            {
              "k": true
            }
          ]
        }
      }
    },
    "refused": {}
  }
}
`
	assert.Equal(t, strings.Split(want, "\n"), strings.Split(string(have), "\n"), "the order counts too")
	files["values.schema.json"].Data = have
	again, err := Schema(files)
	require.NoError(t, err)
	assert.Equal(t, have, again)
}

func TestSchemaWrong(t *testing.T) {
	t.Parallel()
	for want, schema := range map[string]string{
		"values.schema.json has no a.b":            `{"properties": {"a": {}}}`,
		"read values.schema.json: want an object":  `[]`,
		"read values.schema.json: yaml: line 1: d": `{"a": `,
	} {
		_, err := Schema(fstest.MapFS{
			"values.yaml":        {Data: []byte("## @section S\na:\n  # -- B.\n  b: 1\n")},
			"values.schema.json": {Data: []byte(schema)},
		})
		require.ErrorContains(t, err, want)
	}
	_, err := Schema(fstest.MapFS{"values.yaml": {Data: []byte("## @section S\n# -- A.\na: 1\n")}})
	require.ErrorContains(t, err, "values.schema.json")
}
