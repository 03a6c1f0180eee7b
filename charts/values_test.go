// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/report"
)

// wrongValues is an entry of testdata/wrong-values.yaml: values and the expected error.
type wrongValues struct {
	Values values `json:"values"`
	Says   string `json:"says"`
}

// The error has one line for each wrong value, which names it and says what is allowed.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	const file = "testdata/wrong-values.yaml"
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var list []wrongValues
	require.NoError(t, yaml.UnmarshalStrict(raw, &list))
	require.Greater(t, len(list), 60)
	c := load(t)
	for i, wrong := range list {
		_, err := renderWith(wrong.Values, c)
		var typed *report.Error
		if !errors.As(err, &typed) {
			t.Errorf("%v: %v", wrong.Values, err)
			continue
		}
		says := strings.TrimPrefix(err.Error(), "chart values: ")
		assert.NotContains(t, says, "\n")
		assert.NotContains(t, says, "does not match pattern", "the schema has no title for it")
		if *update {
			list[i].Says = says
		} else {
			assert.Equal(t, wrong.Says, says, "%v", wrong.Values)
		}
	}

	if *update {
		raw, err := yaml.Marshal(list)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, raw, 0o644))
	}
}

// The schema contains each value, and no mapping allows unknown keys unless its keys are chosen by the user.
func TestSchemaCoversTheValues(t *testing.T) {
	t.Parallel()
	read := func(file string) (out map[string]any) {
		raw, err := os.ReadFile(filepath.Join(charts.Name, file))
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(raw, &out))
		return out
	}

	var open []string
	var compare func(path string, schema, values map[string]any)
	compare = func(path string, schema, values map[string]any) {
		for key, value := range values {
			property, _ := schema["properties"].(map[string]any)[key].(map[string]any)
			below, isMap := value.(map[string]any)
			if !assert.NotNil(t, property, "%s%s is not in the schema", path, key) || !isMap {
				continue
			}
			if property["additionalProperties"] != false {
				open = append(open, path+key)
			} else if property["properties"] != nil {
				compare(path+key+".", property, below)
			}
		}
	}

	compare("", read("values.schema.json"), read("values.yaml"))
	assert.ElementsMatch(t, []string{
		"affinity", "commonLabels", "grafanaDashboard.labels", "nodeSelector", "podAnnotations", "podSecurityContext",
		"prometheusRule.labels", "resources",
		"securityContext", "serviceMonitor.endpoint", "serviceMonitor.labels", "tenancy.annotations",
		"tenancy.sourceNATAddress",
	}, open)
}
