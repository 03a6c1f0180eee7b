// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/source"
)

var (
	tree     = source.Tree{Version: "1.2.3", Time: time.Unix(1700000000, 0).UTC()}
	platform = source.Platform{OS: "linux", Arch: "arm64"}
	info     = &debug.BuildInfo{
		GoVersion: "go1.26.8 X:nodwarf5",
		Deps: []*debug.Module{
			{Path: "example.org/z", Version: "v1.0.0+incompatible", Sum: "h1:AAAA"},
			{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/b", Version: "v2.0.0"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "-ldflags", Value: "-X x=y"}},
	}
)

func TestOf(t *testing.T) {
	t.Parallel()
	bom := of(info, "csccm", platform, "abcd", tree)
	main := bom.Metadata.Component
	assert.Equal(t, "pkg:golang/github.com/csccm/csccm@v1.2.3?goos=linux&goarch=arm64#cmd/csccm", main.PackageURL)
	assert.Equal(t, &[]cdx.Property{{Name: "csccm:go:GOOS", Value: "linux"}}, main.Properties)
	assert.Equal(t, "2023-11-14T22:13:20Z", bom.Metadata.Timestamp)
	var purls []string
	for _, c := range *bom.Components {
		purls = append(purls, c.PackageURL)
	}
	assert.Equal(t, []string{
		"pkg:golang/example.org/b@v2.0.0", "pkg:golang/example.org/z@v1.0.0%2Bincompatible", "pkg:golang/std@1.26.8",
	}, purls)
	assert.Equal(t, sha256Of("000000"), (*bom.Components)[1].Hashes)
	assert.Equal(t, &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &purls}}, bom.Dependencies)
	assert.Equal(t, bom, of(info, "csccm", platform, "abcd", tree))
	assert.NotEqual(t, bom.SerialNumber, of(info, "csccm", platform, "abce", tree).SerialNumber)
}

func TestImage(t *testing.T) {
	t.Parallel()
	binary := of(info, "csccm", platform, "abcd", tree)
	before, err := JSON(binary)
	require.NoError(t, err)
	bom := Image(binary, "sha256:ffff", "v0.0.1")
	assert.Equal(t, "pkg:oci/csccm@sha256%3Affff", bom.Metadata.Component.PackageURL)
	require.Len(t, *bom.Components, 5)
	assert.Equal(t, cdx.ComponentTypeApplication, (*bom.Components)[0].Type)
	refs := map[string]bool{bom.Metadata.Component.BOMRef: true}
	for _, c := range *bom.Components {
		assert.False(t, refs[c.BOMRef], "%s twice", c.BOMRef)
		refs[c.BOMRef] = true
	}
	for _, d := range *bom.Dependencies {
		for _, ref := range append(*d.Dependencies, d.Ref) {
			assert.True(t, refs[ref], ref)
		}
	}
	after, err := JSON(binary)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after), "the SBOM of the binary is unchanged")
}

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
