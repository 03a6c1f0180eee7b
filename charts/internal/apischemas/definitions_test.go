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
	have, err := source{}.less([]byte(`
description: a text
list: [{description: a text, type: object}]
properties:
  description: {description: a text, type: string}
`))
	require.NoError(t, err)
	assert.Equal(t, "list:\n- type: object\nproperties:\n  description:\n    type: string\n", string(have), "a property of that name stays")
}

func TestReducedDefinition(t *testing.T) {
	t.Parallel()
	have, err := source{reduced: true}.less([]byte(`
spec:
  versions:
  - {name: v1alpha1, served: false}
  - name: v1
    served: true
    additionalPrinterColumns: [{name: Age}]
    schema:
      openAPIV3Schema:
        properties:
          spec: {type: object, x-kubernetes-validations: [{rule: self.a > 1}]}
          status: {type: object}
`))
	require.NoError(t, err)
	want := `spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            type: object
    served: true
`
	assert.Equal(t, want, string(have))
}
