// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both generated files contain each description. The generator of the schema drops later lines of a comment that start
// with two dashes.
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
			require.Contains(t, string(schema), `"description": `+string(text), "%s: run go generate ./charts",
				value.Path)
		}
	}
}

// The README of the chart matches its values.yaml.
func TestReadmeIsFresh(t *testing.T) {
	t.Parallel()
	require.NoError(t, run([]string{"../../cloudstack-ccm"}, true))
}
