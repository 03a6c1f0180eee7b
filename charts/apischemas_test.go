// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// minors are the versions of Kubernetes that the chart supports.
var minors = []string{"v1.33", "v1.34", "v1.35", "v1.36", "v1.37"}

// apiSchemas checks objects against the API of one minor version of Kubernetes (internal/apischemas).
type apiSchemas struct {
	kinds    map[string]string
	compiler *jsonschema.Compiler
	url      string
	compiled map[string]*jsonschema.Schema
}

// loadAPISchemas reads the schemas of a minor version. more adds others, by group/version and kind.
func loadAPISchemas(t *testing.T, minor string, more map[string]any) *apiSchemas {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "apischemas", minor+".json"))
	require.NoError(t, err)
	var index struct {
		Version string
		Kinds   map[string]string
	}

	require.NoError(t, json.Unmarshal(raw, &index))
	require.True(t, strings.HasPrefix(index.Version, minor+"."))
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	for kind, schema := range more {
		index.Kinds[kind] = kind
		document.(map[string]any)["$defs"].(map[string]any)[kind] = schema
	}

	s := &apiSchemas{
		kinds:    index.Kinds,
		compiler: jsonschema.NewCompiler(),
		url:      "mem:///" + minor,
		compiled: map[string]*jsonschema.Schema{},
	}

	require.NoError(t, s.compiler.AddResource(s.url, document))
	return s
}

// definitions returns the schemas in a file of CustomResourceDefinitions, by "monitoring.coreos.com/v1 ServiceMonitor".
func definitions(t *testing.T, file string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "apischemas", file))
	require.NoError(t, err)
	schemas := map[string]any{}
	for _, doc := range documents(string(raw))[1:] {
		var definition struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(doc), &definition))
		for _, version := range definition.Spec.Versions {
			closed(version.Schema.OpenAPIV3Schema)
			schemas[fmt.Sprintf("%s/%s %s", definition.Spec.Group, version.Name,
				definition.Spec.Names.Kind)] = version.Schema.OpenAPIV3Schema
		}
	}

	return schemas
}

// closed forbids fields that a schema does not define, like an API server with strict validation.
func closed(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	if properties != nil &&
		schema["additionalProperties"] == nil &&
		schema["x-kubernetes-preserve-unknown-fields"] == nil {
		schema["additionalProperties"] = false
	}
	for _, property := range properties {
		if below, ok := property.(map[string]any); ok {
			closed(below)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, ok := schema[key].(map[string]any); ok {
			closed(below)
		}
	}
}

// check returns the API's errors for an object.
func (s *apiSchemas) check(document string) error {
	raw, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return err
	}
	var of struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &of); err != nil {
		return err
	}
	return s.checkAs(of.APIVersion+" "+of.Kind, document)
}

// checkAs is like check for a document that does not name its kind.
func (s *apiSchemas) checkAs(kind, document string) error {
	raw, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return err
	}

	name, ok := s.kinds[kind]
	if !ok {
		return fmt.Errorf("this version does not have %s", kind)
	}

	if s.compiled[kind] == nil {
		pointer := strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if s.compiled[kind], err = s.compiler.Compile(s.url + "#/$defs/" + url.PathEscape(pointer)); err != nil {
			return err
		}
	}

	object, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}

	return s.compiled[kind].Validate(object)
}

func TestRenderingsFitEachMinorOfKubernetes(t *testing.T) {
	t.Parallel()
	sets := valueSets(t)
	assert.GreaterOrEqual(t, len(sets), 8)
	for _, minor := range minors {
		t.Run(minor, func(t *testing.T) {
			t.Parallel()
			schemas := loadAPISchemas(t, minor, definitions(t, "prometheus-operator.yaml"))
			seen := map[string]bool{}
			for name, values := range sets {
				for _, document := range documents(render(t, values)) {
					require.NoError(t, schemas.check(document), "%s\n%s", name, document)
					var of struct{ APIVersion, Kind string }
					require.NoError(t, yaml.Unmarshal([]byte(document), &of))
					seen[of.APIVersion+" "+of.Kind] = true
				}
			}

			for kind := range schemas.kinds {
				assert.True(t, seen[kind], "no rendering has a %s", kind)
			}
		})
	}
}
