// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cases runs test cases that are written as data: a YAML file that maps names to cases.
package cases

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Run runs a parallel subtest for each case of a file. The test fails if the file has a field that T lacks, or a
// duplicate name.
func Run[T any](t *testing.T, path string, test func(t *testing.T, name string, c T)) {
	t.Helper()
	t.Parallel()

	text, err := os.ReadFile(path) // #nosec G304 -- a file of the test
	require.NoError(t, err)
	var all map[string]T
	require.NoError(t, yaml.UnmarshalStrict(text, &all))
	require.NotEmpty(t, all, path)

	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, c)
		})
	}
}
