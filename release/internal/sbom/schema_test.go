// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/source"
)

// cycloneDX compiles the schemas that CycloneDX publishes; see testdata/README.md for their source.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	files, err := filepath.Glob("testdata/*.schema.json")
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err, file)
		require.NoError(t, compiler.AddResource("http://cyclonedx.org/schema/"+filepath.Base(file), doc))
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	require.NoError(t, err)
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return schema.Validate(doc)
}

// The generated SBOMs are valid CycloneDX 1.6. CSCCM_SBOM names a directory with more SBOMs, such as dist/ of a
// release.
func TestSBOMsAreValidCycloneDX(t *testing.T) {
	t.Parallel()
	schema := cycloneDX(t)
	const digest = "c4e0d7d7d53a5d8c1a6a8ac3be2a2a4b0f1f8a4f6f8ae3b37b1ba6ae60cf3a0e"
	linked := *info
	linked.Deps = nil
	for _, dep := range info.Deps {
		full := *dep
		full.Sum = "h1:LPJNul+wow4m6DqxbinhsWHlwAfstxDHmVHHzaVUwWo="
		linked.Deps = append(linked.Deps, &full)
	}
	binary := of(&linked, "csccm", platform, digest, tree)
	for name, bom := range map[string]*cdx.BOM{
		"program": binary,
		"image":   Image(binary, "sha256:"+digest, "v0.0.1"),
		"build metadata in the version": of(&linked, "csccm", platform, digest,
			source.Tree{Version: "1.2.3+dirty", Time: tree.Time}),
	} {
		text, err := JSON(bom)
		require.NoError(t, err)
		require.NoError(t, validate(t, schema, text), name)
	}
	if dir := os.Getenv("CSCCM_SBOM"); dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "*.cdx.json"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, validate(t, schema, text), file)
		}
		t.Logf("%d SBOMs in %s are valid", len(files), dir)
	}
}

// The schema rejects wrong SBOMs, so that the test above is meaningful.
func TestSchemaFindsMistakes(t *testing.T) {
	t.Parallel()
	schema := cycloneDX(t)
	text, err := JSON(of(info, "csccm", platform, "abcd", tree))
	require.NoError(t, err)
	require.ErrorContains(t, validate(t, schema, text), "abcd", "a hash that is too short")

	var doc map[string]any
	require.NoError(t, json.Unmarshal(text, &doc))
	for name, wrong := range map[string]any{"serialNumber": "urn:uuid:1", "specVersion": 1.6, "unknown": true, "bomFormat": "x"} {
		changed := map[string]any{}
		for key, value := range doc {
			changed[key] = value
		}
		changed[name] = wrong
		out, err := json.Marshal(changed)
		require.NoError(t, err)
		assert.ErrorContains(t, validate(t, schema, out), name)
	}
}
