// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package gobuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/source"
)

// module writes a program with the product's module path, so that -X in Flags has an effect on it.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                 "module github.com/csccm/csccm\n\ngo 1.26\n",
		"pkg/version/version.go": "package version\n\nvar Version, Commit, Date string\n",
		"cmd/x/main.go":          "package main\n\nimport \"github.com/csccm/csccm/pkg/version\"\n\nfunc main() { print(version.Version, \" \", version.Commit, \" \", version.Date) }\n",
	} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

func TestBuildIsReproducibleAndStamped(t *testing.T) {
	t.Parallel()
	tree := source.Tree{Stamp: "v1.2.3", Version: "1.2.3", Commit: "abcdef", Time: time.Unix(1700000000, 0)}
	host := Platform{runtime.GOOS, runtime.GOARCH}
	var built [2][]byte
	for i := range built {
		out := filepath.Join(t.TempDir(), "x")
		require.NoError(t, Build(t.Context(), module(t), "./cmd/x", host, tree, out))
		var err error
		built[i], err = os.ReadFile(out)
		require.NoError(t, err)
		said, err := exec.CommandContext(t.Context(), out).CombinedOutput()
		require.NoError(t, err)
		assert.Equal(t, "v1.2.3 abcdef 2023-11-14T22:13:20Z", string(said))
	}
	assert.Equal(t, built[0], built[1], "builds in two directories have the same bytes")
}

// Settings of go env -w do not affect the build.
//
//nolint:paralleltest // sets environment variables
func TestBuildIgnoresGoEnv(t *testing.T) {
	dir := module(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cmd/x/tagged.go"), []byte("//go:build mine\n\npackage main\n\nvar _ = nothing\n"), 0o644))
	settings := filepath.Join(t.TempDir(), "env")
	require.NoError(t, os.WriteFile(settings, []byte("GOFLAGS=-tags=mine\nGOWORK=/none\nCGO_ENABLED=1\n"), 0o600))
	t.Setenv("GOENV", settings)
	host := Platform{runtime.GOOS, runtime.GOARCH}
	require.NoError(t, Build(t.Context(), dir, "./cmd/x", host, source.Tree{}, filepath.Join(dir, "out")))
}

func TestBuildReturnsCompilerErrors(t *testing.T) {
	t.Parallel()
	dir := module(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cmd/x/wrong.go"), []byte("package main\n\nvar _ = nothing\n"), 0o644))
	host := Platform{runtime.GOOS, runtime.GOARCH}
	err := Build(t.Context(), dir, "./cmd/x", host, source.Tree{}, filepath.Join(dir, "out"))
	require.ErrorContains(t, err, "go build ./cmd/x for "+host.String())
	require.ErrorContains(t, err, "undefined: nothing")
}

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	p, err := ParsePlatform("linux/arm64")
	require.NoError(t, err)
	assert.Equal(t, Platform{"linux", "arm64"}, p)
	for _, wrong := range []string{"", "linux", "linux/", "/arm64", "linux/arm/v7"} {
		_, err := ParsePlatform(wrong)
		require.ErrorContains(t, err, "want OS/ARCH", wrong)
	}
}

// The Makefile and the Dockerfile use the same flags.
func TestFlagsAreThoseOfTheOtherBuilds(t *testing.T) {
	t.Parallel()
	flags := strings.Join(Flags(source.Tree{Stamp: "v1", Commit: "c", Time: time.Unix(0, 0)}), " ")
	for _, file := range []string{"Makefile", "Dockerfile"} {
		raw, err := os.ReadFile("../../../" + file)
		require.NoError(t, err)
		text := strings.NewReplacer("$(VERSION_PKG)", versionPackage).Replace(string(raw))
		for _, part := range []string{
			"-trimpath", "-buildvcs=false", "-s -w", versionPackage + ".Version=", versionPackage + ".Commit=", versionPackage + ".Date=",
		} {
			assert.Contains(t, flags, part)
			assert.Contains(t, text, part, file)
		}
		assert.Equal(t, strings.Count(flags, "-X "), strings.Count(text, "-X "), "%s stamps as much", file)
	}
}
