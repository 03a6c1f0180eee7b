// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/source"
)

var (
	tree     = source.Tree{Version: "1.2.3", Time: time.Unix(1700000000, 0).UTC()}
	platform = gobuild.Platform{OS: "linux", Arch: "arm64"}
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

func TestBinaryOfThisTest(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	bom, err := Binary(self, "test", gobuild.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, tree)
	require.NoError(t, err)
	// A test binary has no list of modules; the tests of package release check that of real binaries.
	require.NotEmpty(t, *bom.Components)
	last := (*bom.Components)[len(*bom.Components)-1]
	assert.Equal(t, "std", last.Name)
	assert.Contains(t, runtime.Version(), last.Version)

	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o600))
	_, err = Binary(text, "x", platform, tree)
	require.ErrorContains(t, err, text)
}
