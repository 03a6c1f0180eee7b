// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestManifest(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	have, err := Manifest(t.Context(), c, "v1.33.0")
	require.NoError(t, err)
	head, text, _ := strings.Cut(string(have), "---\n")
	assert.True(t, strings.HasPrefix(head, "# cloudstack-ccm "+c.AppVersion()+": "), head)
	assert.Contains(t, head, "kubectl apply -f cloudstack-ccm.yaml")
	for _, helms := range []string{"Helm\n", "helm.sh/chart", "helm.sh/hook", "self-test"} {
		assert.NotContains(t, text, helms)
	}
	for _, kind := range []string{"Deployment", "ClusterRole", "ServiceAccount", "ValidatingAdmissionPolicy", "PodDisruptionBudget"} {
		assert.Contains(t, text, "\nkind: "+kind+"\n")
	}
	again, err := Manifest(t.Context(), c, "v1.37.0")
	require.NoError(t, err)
	assert.Equal(t, string(have), string(again), "the same for every version of Kubernetes")

	_, err = Manifest(t.Context(), c, "v1.30.0")
	require.ErrorContains(t, err, "the chart needs Kubernetes")
}

func TestProblemsInWords(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"properties": {
		"a": {"properties": {"b": {"patternErrorMessage": "a fruit"}}},
		"list": {"items": {"patternErrorMessage": "a network"}},
		"map": {"additionalProperties": {"patternErrorMessage": "a word"}},
		"closed": {"additionalProperties": false},
		"ref": {"items": {"$ref": "#/$defs/d"}},
		"secret": {"patternErrorMessage": "a URL", "writeOnly": true}
	}, "$defs": {"d": {"patternErrorMessage": "a planet"}}}`)
	for problem, want := range map[string]string{
		"a.b: 'x' does not match pattern '^y$'":       "a.b: 'x' is not a fruit",
		"list.0: 'x' does not match pattern '^y$'":    "list.0: 'x' is not a network",
		"map.k: '' does not match pattern '^y$'":      "map.k: '' is not a word",
		"ref.0: 'x' does not match pattern '^y$'":     "ref.0: 'x' is not a planet",
		"closed.k: 'x' does not match pattern '^y$'":  "closed.k: 'x' does not match pattern '^y$'",
		"unknown: 'x' does not match pattern '^y$'":   "unknown: 'x' does not match pattern '^y$'",
		"secret: 'u:p@h' does not match pattern '^y'": "secret: want a URL",
		"a: got string, want object":                  "a: got string, want object",
	} {
		err := inWords(&ValuesError{Problems: []string{problem}}, schema)
		require.EqualError(t, err, "chart values: "+want)
	}
	plain := &ValuesError{Problems: []string{"a: 'x' does not match pattern '^y$'"}}
	assert.Same(t, plain, inWords(plain, nil), "a chart without a schema")
}
