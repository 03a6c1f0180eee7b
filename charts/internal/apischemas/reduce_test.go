// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReduced(t *testing.T) {
	t.Parallel()
	documents := fstest.MapFS{}
	for _, group := range groups {
		documents[group+"_openapi.json"] = &fstest.MapFile{Data: []byte(`{"components": {"schemas": {}}}`)}
	}
	documents["apis__apps__v1_openapi.json"].Data = []byte(`{"components": {"schemas": {
		"a.Deployment": {
			"description": "text", "type": "object",
			"properties": {
				"spec": {"allOf": [{"$ref": "#/components/schemas/a.Spec"}], "default": {}},
				"status": {"$ref": "#/components/schemas/a.Status"}
			},
			"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}]
		},
		"a.Spec": {"type": "object", "required": ["n"], "properties": {
			"n": {"type": "integer", "format": "int32"},
			"labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
			"port": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}
		}},
		"a.Status": {"type": "object"},
		"a.Other": {"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Other"}]}
	}}}`)
	all, err := read(documents)
	require.NoError(t, err)
	have, err := json.Marshal(all.reduced("v1.99.0"))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"version": "v1.99.0",
		"kinds": {"apps/v1 Deployment": "a.Deployment"},
		"$defs": {
			"a.Deployment": {"type": "object", "additionalProperties": false, "properties": {"spec": {"allOf": [{"$ref": "#/$defs/a.Spec"}]}}},
			"a.Spec": {"type": "object", "required": ["n"], "additionalProperties": false, "properties": {
				"n": {"type": "integer"},
				"labels": {"type": "object", "additionalProperties": {"type": "string"}},
				"port": {"oneOf": [{"type": "integer"}, {"type": "string"}]}
			}}
		}
	}`, string(have))
}

func TestArguments(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, run(t.Context(), []string{"folder"}), "want a directory and versions of Kubernetes")
	_, err := read(fstest.MapFS{})
	require.ErrorContains(t, err, "api__v1_openapi.json")
}
