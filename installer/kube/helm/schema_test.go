// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblemsInWords(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"properties": {"a": {"properties": {"b": {"title": "a fruit"}}}, "list": {"items": {"type": "string"}}}}`)
	for problem, want := range map[string]string{
		"- at '/a/b': 'x' does not match pattern '^y$'":              "a.b: 'x' is not a fruit",
		"- at '/list/0': 'x' does not match pattern '^y$'":           "list.0: 'x' does not match pattern '^y$'",
		"- at '/a': got string, want object":                         "a: got string, want object",
		"- at '/a': additional properties 'bb', 'zzzzz' not allowed": "a: additional properties 'bb', 'zzzzz' not allowed",
	} {
		require.Equal(t, want, schemaProblems(problem, schema)[0])
	}
	require.Equal(t, []string{"a: 'x' does not match pattern '^y$'"}, schemaProblems("- at '/a': 'x' does not match pattern '^y$'", nil), "a chart without a schema")
}
