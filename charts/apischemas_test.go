// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/helm"
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

func loadAPISchemas(t *testing.T, minor string) *apiSchemas {
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
	s := &apiSchemas{kinds: index.Kinds, compiler: jsonschema.NewCompiler(), url: "mem:///" + minor, compiled: map[string]*jsonschema.Schema{}}
	require.NoError(t, s.compiler.AddResource(s.url, document))
	return s
}

// check returns what the API would say against an object. Kinds of the Prometheus operator are not Kubernetes' own.
func (s *apiSchemas) check(document string) error {
	raw, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return err
	}
	var of struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &of); err != nil {
		return err
	}
	if strings.HasPrefix(of.APIVersion, "monitoring.coreos.com/") {
		return nil
	}
	kind := of.APIVersion + " " + of.Kind
	name, ok := s.kinds[kind]
	if !ok {
		return fmt.Errorf("this version does not have %s", kind)
	}
	if s.compiled[kind] == nil {
		if s.compiled[kind], err = s.compiler.Compile(s.url + "#/$defs/" + name); err != nil {
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
			schemas := loadAPISchemas(t, minor)
			seen := map[string]bool{}
			for name := range sets {
				golden, err := os.ReadFile(filepath.Join("testdata", "golden", name+".golden.yaml"))
				require.NoError(t, err)
				for _, document := range documents(string(golden)) {
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

func TestSchemasRefuseWhatTheAPIWould(t *testing.T) {
	t.Parallel()
	schemas := loadAPISchemas(t, "v1.37")
	for want, document := range map[string]string{
		"additional properties 'replica' not allowed": "{apiVersion: apps/v1, kind: Deployment, spec: {replica: 1, selector: {}, template: {}}}",
		"got string, want integer":                    "{apiVersion: v1, kind: Service, spec: {ports: [{port: '1'}]}}",
		"missing property 'containers'":               "{apiVersion: v1, kind: Pod, spec: {}}",
		"does not have apps/v1 Deploy":                "{apiVersion: apps/v1, kind: Deploy}",
		`key "a" already set`:                         "a: 1\na: 2",
	} {
		assert.ErrorContains(t, schemas.check(document), want)
	}
}

// The chart refuses older versions, and takes each that is tested.
func TestKubeVersion(t *testing.T) {
	t.Parallel()
	for _, minor := range minors {
		assert.NoError(t, renderFor(t, minor+".0"))
		assert.NoError(t, renderFor(t, minor+".0-gke.1"))
	}
	assert.ErrorContains(t, renderFor(t, "v1.32.9"), "the chart needs Kubernetes >=1.33.0-0, this is v1.32.9")
}

func renderFor(t *testing.T, version string) error {
	t.Helper()
	_, err := helm.Template(t.Context(), namespace, helm.ApplyRequest{Name: releaseName, Chart: load(t), KubeVersion: version})
	return err
}
