// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
)

// wrongValues is an entry of testdata/wrong-values.yaml: values, and what is said of them.
type wrongValues struct {
	Values values `json:"values"`
	Says   string `json:"says"`
}

// One line for each, which names the value and what would be right.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	const file = "testdata/wrong-values.yaml"
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var list []wrongValues
	require.NoError(t, yaml.UnmarshalStrict(raw, &list))
	require.Greater(t, len(list), 80)
	c := load(t)
	for i, wrong := range list {
		_, err := renderWith(wrong.Values, c)
		var typed *helm.ValuesError
		if !errors.As(err, &typed) {
			t.Errorf("%v: %v", wrong.Values, err)
			continue
		}
		says := strings.TrimPrefix(err.Error(), "chart values: ")
		assert.NotContains(t, says, "\n")
		assert.NotContains(t, says, "does not match pattern", "the schema has no patternErrorMessage for it")
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

var refusedName = regexp.MustCompile(`(?m)^  "(\w+)" "`)

// What is refused with a hint is in the schema, and the other way round, or the hint would never be seen.
func TestRefusedNamesAreInTheSchema(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(charts.Name, "templates", "_validate.tpl"))
	require.NoError(t, err)
	refused := map[string]bool{}
	for _, m := range refusedName.FindAllSubmatch(raw, -1) {
		refused[string(m[1])] = true
	}
	require.Greater(t, len(refused), 20)
	for name, s := range readSchema(t).Properties {
		if strings.HasPrefix(s.Comment, "refused") && !slices.Contains(credentialNames, name) {
			assert.True(t, refused[name], "%s has no hint", name)
			delete(refused, name)
		}
	}
	assert.Empty(t, refused, "not in the schema")
}

var credentialNames = []string{"apiKey", "apiUrl", "cloudConfig", "cloudstack", "credentials", "secret", "secretKey", "cloud-config"}

// As a dependency of another chart the values get two keys that users do not write.
func TestValuesOfAParentChart(t *testing.T) {
	t.Parallel()
	render(t, map[string]any{"global": map[string]any{"x": 1}, "enabled": true})
}

type schema struct {
	Type                 any               `json:"type"`
	Comment              string            `json:"$comment"`
	Description          string            `json:"description"`
	Default              any               `json:"default"`
	AdditionalProperties any               `json:"additionalProperties"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
}

func readSchema(t *testing.T) (root schema) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(charts.Name, "values.schema.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &root))
	return root
}

// Each value has its place in the schema and the other way round, and no level takes unknown ones.
func TestSchemaCoversTheValues(t *testing.T) {
	t.Parallel()
	root := readSchema(t)
	raw, err := os.ReadFile(filepath.Join(charts.Name, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &values))
	compare(t, "", root, values)
}

func compare(t *testing.T, path string, s schema, values map[string]any) {
	t.Helper()
	if path != "global." { // an umbrella chart has more in it
		assert.Equal(t, false, s.AdditionalProperties, "additionalProperties of %q", path)
	}
	for key, value := range values {
		property, ok := s.Properties[key]
		if !assert.True(t, ok, "%s%s is not in the schema", path, key) {
			continue
		}
		// Maps that are the user's own have no list of properties.
		if below, isMap := value.(map[string]any); isMap && property.Properties != nil && len(below) > 0 {
			compare(t, path+key+".", property, below)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if s.Properties[key].Comment != "" || slices.Contains([]string{"affinity.", "resources.", "podSecurityContext.", "securityContext.", "tenancy.annotations."}, path) {
			continue // refused by a guard, set by Helm, a part of Kubernetes' own type, or a rule that is not a default
		}
		assert.Contains(t, values, key, "%s%s is in the schema and not in values.yaml", path, key)
	}
}

// "helm upgrade --reuse-values" leaves out what an older chart did not have, which Helm then takes for null.
func TestMissingValues(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(charts.Name, "templates", "_required.tpl"))
	require.NoError(t, err)
	var listed []string
	for _, m := range regexp.MustCompile(`"([a-z][A-Za-z.]+)"[ \n]`).FindAllSubmatch(raw, -1) {
		if name := string(m[1]); name != "map" {
			listed = append(listed, name)
		}
	}
	assert.Equal(t, withDefault("", readSchema(t)), listed, "what templates/_required.tpl has to list")

	c := load(t)
	for value, values := range map[string]map[string]any{
		"kind":                            {"kind": nil},
		"nodes.deletionLimit":             {"nodes": nil},
		"loadBalancers.manageNetworkACLs": {"loadBalancers": map[string]any{"manageNetworkACLs": nil}},
		"proxy":                           {"proxy": nil},
	} {
		_, err := renderWith(values, c)
		require.ErrorContains(t, err, value+" is missing; after an older chart use helm upgrade --reset-then-reuse-values")
	}
	for _, value := range []string{"affinity", "commonLabels", "initContainers", "nodeSelector", "podLabels", "priorityClassName", "resources", "tolerations"} {
		render(t, map[string]any{value: nil})
	}
}

// withDefault are the values whose default is more than nothing, and sections of values without one, sorted.
func withDefault(prefix string, s schema) (all []string) {
	for name, property := range s.Properties {
		path := prefix + name
		switch def := property.Default.(type) {
		case bool, float64:
			if types, several := property.Type.([]any); !several || !slices.Contains(types, any("null")) {
				all = append(all, path)
			}
		case string:
			if def != "" && path != "priorityClassName" { // null is a way to have none
				all = append(all, path)
			}
		case nil:
			if property.Properties == nil || property.Comment != "" {
				continue
			}
			below := withDefault(path+".", property)
			if len(below) == 0 {
				below = []string{path}
			}
			all = append(all, below...)
		}
	}
	slices.Sort(all)
	return all
}
