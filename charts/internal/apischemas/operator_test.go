// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWithoutDescriptions(t *testing.T) {
	t.Parallel()
	have, err := withoutDescriptions([]byte(`
description: a text
list: [{description: a text, type: object}]
properties:
  description: {description: a text, type: string}
`))
	require.NoError(t, err)
	assert.Equal(t, "list:\n- type: object\nproperties:\n  description:\n    type: string\n", string(have), "a property of that name stays")
}
