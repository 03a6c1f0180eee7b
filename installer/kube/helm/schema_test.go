// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProblemsInWords(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"properties": {"a": {"properties": {"b": {"title": "a fruit"}}}, "list": {"items": {"type": "string"}}}}`)
	for problem, want := range map[string]string{
		"a.b: 'x' does not match pattern '^y$'":     "a.b: 'x' is not a fruit",
		"list.0: 'x' does not match pattern '^y$'":  "list.0: 'x' does not match pattern '^y$'",
		"unknown: 'x' does not match pattern '^y$'": "unknown: 'x' does not match pattern '^y$'",
		"a: got string, want object":                "a: got string, want object",
	} {
		err := inWords(&ValuesError{Problems: []string{problem}}, schema)
		require.EqualError(t, err, "chart values: "+want)
	}
	plain := &ValuesError{Problems: []string{"a: 'x' does not match pattern '^y$'"}}
	assert.Same(t, plain, inWords(plain, nil), "a chart without a schema")
}
