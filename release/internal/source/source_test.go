// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package source

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
)

func TestSemantic(t *testing.T) {
	t.Parallel()
	for stamp, want := range map[string]string{
		"v1.2.3":                  "1.2.3",
		"1.2.3":                   "1.2.3",
		"v1.2.3-rc.1":             "1.2.3-rc.1",
		"v1.2.3-4-gabcdef0-dirty": "1.2.3-4-gabcdef0-dirty",
		"v1.2.3+build.5":          "1.2.3+build.5",
		"v0.0.0-dev":              "0.0.0-dev",
	} {
		have, err := Semantic(stamp)
		require.NoError(t, err, stamp)
		assert.Equal(t, want, have)
	}
	for _, stamp := range []string{"", "latest", "v1.2", "v1.2.3.4", "release-1", "abcdef0"} {
		_, err := Semantic(stamp)
		require.ErrorContains(t, err, "want a semantic version such as v1.2.3", stamp)
	}
}

//nolint:paralleltest // sets environment variables
func TestReadFromGit(t *testing.T) {
	dir := t.TempDir()
	for key, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "1700000000 +0000",
		"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_COMMITTER_DATE": "1700000000 +0000",
		"SOURCE_DATE_EPOCH": "",
	} {
		t.Setenv(key, value)
	}
	run := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	read := func(version string) Tree {
		tree, err := Read(t.Context(), dir, version)
		require.NoError(t, err)
		return tree
	}

	run("init", "-q")
	tree := read("")
	assert.Equal(t, Tree{Stamp: "v0.0.0-dev", Version: "0.0.0-dev", Commit: "unknown", Time: time.Unix(0, 0).UTC(), NoGit: "git rev-parse: fatal: Needed a single revision"}, tree)
	assert.Equal(t, "unknown", tree.Date())

	run("commit", "-q", "--allow-empty", "-m", "one")
	tree = read("")
	assert.Equal(t, "0.0.0-dev", tree.Version)
	assert.Len(t, tree.Commit, 12)
	assert.Equal(t, "2023-11-14T22:13:20Z", tree.Date())

	assert.Len(t, tree.Revision, 40)
	assert.Empty(t, tree.Tags)
	assert.Empty(t, tree.Changes)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
	assert.Equal(t, []string{"?? new"}, read("").Changes)
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))

	run("tag", "v1.2.3-rc.1")
	content := tree.Content
	tree = read("")
	assert.Equal(t, []string{"v1.2.3-rc.1"}, tree.Tags)
	run("commit", "-q", "--amend", "--allow-empty", "-m", "two")
	other := read("v1.2.3-rc.1")
	assert.NotEqual(t, tree.Revision, other.Revision)
	assert.Equal(t, content, other.Content)
	run("tag", "-f", "v1.2.3-rc.1")
	assert.Equal(t, "v1.2.3-rc.1", tree.Tag())
	assert.Equal(t, "1.2.3-rc.1", tree.Version)

	tree = read("v2.0.0+x")
	assert.Equal(t, "v2.0.0_x", tree.ImageTag())

	t.Setenv("SOURCE_DATE_EPOCH", "1600000000")
	assert.EqualValues(t, 1600000000, read("").Time.Unix())
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	_, err := Read(t.Context(), dir, "")
	require.EqualError(t, err, `SOURCE_DATE_EPOCH: "yesterday" is not a number of seconds`)
}

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
	tree := Tree{Stamp: "v1.2.3", Version: "1.2.3", Commit: "abcdef", Time: time.Unix(1700000000, 0)}
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
	require.NoError(t, Build(t.Context(), dir, "./cmd/x", host, Tree{}, filepath.Join(dir, "out")))
}

func TestBuildReturnsCompilerErrors(t *testing.T) {
	t.Parallel()
	dir := module(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cmd/x/wrong.go"), []byte("package main\n\nvar _ = nothing\n"), 0o644))
	host := Platform{runtime.GOOS, runtime.GOARCH}
	err := Build(t.Context(), dir, "./cmd/x", host, Tree{}, filepath.Join(dir, "out"))
	require.ErrorContains(t, err, "go build ./cmd/x for "+host.String())
	require.ErrorContains(t, err, "undefined: nothing")
}

// The Makefile and the Dockerfile use the same flags.
func TestFlagsAreThoseOfTheOtherBuilds(t *testing.T) {
	t.Parallel()
	flags := strings.Join(Flags(Tree{Stamp: "v1", Commit: "c", Time: time.Unix(0, 0)}), " ")
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
