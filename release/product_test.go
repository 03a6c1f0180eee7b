// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/release/internal/sbom"
	"github.com/csccm/csccm/release/internal/source"
)

// Building the product's programs in two directories gives the same bytes, and so do their archives and images.
func TestProductIsReproducible(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("links the simulator twice")
	}
	tree := source.Tree{Stamp: "v1.2.3", Version: "1.2.3", Commit: "abcdef", Time: time.Unix(1700000000, 0).UTC()}
	platform := source.Platform{OS: "linux", Arch: runtime.GOARCH}
	p := products[2]
	require.Equal(t, "cloudstack-sim", p.Name)
	const root = ".."
	// A copy at another path: the result must not depend on the path or on the files' times.
	other := filepath.Join(t.TempDir(), "another", "place")
	for _, folder := range []string{"pkg", "cmd"} {
		require.NoError(t, os.CopyFS(filepath.Join(other, folder), os.DirFS(filepath.Join(root, folder))))
	}
	for _, name := range []string{"go.mod", "go.sum", "LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(other, name), data, 0o600))
	}

	var archives [][]byte
	var digests []string
	for _, dir := range []string{root, other} {
		b := newBuilder(dir, t.TempDir(), tree, io.Discard)
		out := t.TempDir()
		name, err := b.archive(t.Context(), p, platform, out)
		require.NoError(t, err)
		data, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		archives = append(archives, data)
		index, err := b.image(t.Context(), p.Spec, []source.Platform{platform})
		require.NoError(t, err)
		digest, err := index.Digest()
		require.NoError(t, err)
		digests = append(digests, digest.String())

		file, err := b.binary(t.Context(), p.Name, platform)
		require.NoError(t, err)
		info, err := buildinfo.ReadFile(file)
		require.NoError(t, err)
		bill, err := sbom.Binary(file, p.Name, platform, tree)
		require.NoError(t, err)
		assert.Len(t, *bill.Components, len(info.Deps)+1, "all modules and Go's standard library")
	}
	assert.True(t, bytes.Equal(archives[0], archives[1]), "archives")
	assert.Equal(t, digests[0], digests[1])
	t.Logf("archive %x, image %s: twice", sha256.Sum256(archives[0]), digests[0])
}

// All files that contain the supported versions of Kubernetes agree.
func TestVersionsOfKubernetes(t *testing.T) {
	t.Parallel()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		return data
	}
	var chart struct {
		KubeVersion string `json:"kubeVersion"`
	}
	require.NoError(t, yaml.Unmarshal(read("charts/cloudstack-ccm/Chart.yaml"), &chart))
	assert.Equal(t, ">="+supported.Minimum+".0-0", chart.KubeVersion)
	policy := string(read("docs/support-policy.md"))
	assert.Contains(t, policy, "| the chart installs | "+supported.Minimum+" or newer |")
	assert.Contains(t, policy, "| libraries | "+supported.Built+" |")
	assert.Contains(t, string(read("README.md")), "Kubernetes "+supported.Minimum+" or newer")
	assert.Regexp(t, `(?m)^\tk8s\.io/client-go v0\.`+strings.TrimPrefix(supported.Built, "1.")+`\.`, string(read("go.mod")))
}
