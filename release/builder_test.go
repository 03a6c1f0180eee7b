// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/release/internal/pack"
	"github.com/csccm/csccm/release/internal/source"
)

// script is a script in the place of a program.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	// A program that is started by another test meanwhile would have the file open for writing, and Linux refuses to run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700))
	return file
}

func TestManualPages(t *testing.T) {
	t.Parallel()
	pages, err := manualPages(t.Context(), script(t, `echo "$HOME" > "$1/x.1"; echo "$SOURCE_DATE_EPOCH" > "$1/x-a.1"`), time.Unix(1700000000, 0))
	require.NoError(t, err)
	assert.Equal(t, []pack.File{{Name: "man/x-a.1", Mode: 0o644, Data: []byte("1700000000\n")}, {Name: "man/x.1", Mode: 0o644, Data: []byte("/home/user\n")}}, pages)
	_, err = manualPages(t.Context(), script(t, "true"), time.Time{})
	require.ErrorContains(t, err, "wrote no manual page")
	_, err = manualPages(t.Context(), script(t, "echo what >&2; exit 2"), time.Time{})
	require.ErrorContains(t, err, "exit status 2: what")
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	files, err := completions(t.Context(), script(t, `echo "x for $2"`), "x")
	require.NoError(t, err)
	require.Len(t, files, 4)
	assert.Equal(t, pack.File{Name: "completions/_x", Mode: 0o644, Data: []byte("x for zsh\n")}, files[1])
	_, err = completions(t.Context(), script(t, `echo nothing`), "x")
	require.EqualError(t, err, "x completion bash prints no completion")
}

// The manifest has what krew-index's validation asks for.
func TestKrewManifest(t *testing.T) {
	t.Parallel()
	out, err := krewManifest(source.Tree{Version: "1.2.3"}, []map[string]any{
		krewPlatform(source.Platform{OS: "linux", Arch: "amd64"}, "https://example.org/x.tar.gz", "ab"),
		krewPlatform(source.Platform{OS: "windows", Arch: "arm64"}, "https://example.org/x.zip", "cd"),
	})
	require.NoError(t, err)
	for _, want := range []string{
		"apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata:\n  name: csccm\n",
		"  version: v1.2.3\n",
		"  - bin: csccm\n    files:\n    - from: csccm\n      to: .\n    - from: LICENSE\n      to: .\n    selector:\n      matchLabels:\n        arch: amd64\n        os: linux\n    sha256: ab\n    uri: https://example.org/x.tar.gz\n",
		"  - bin: csccm.exe\n    files:\n    - from: csccm.exe\n",
	} {
		assert.Contains(t, string(out), want)
	}
	var m struct {
		Spec struct{ ShortDescription, Description, Caveats string }
	}
	require.NoError(t, yaml.Unmarshal(out, &m))
	assert.LessOrEqual(t, len(m.Spec.ShortDescription), 50)
	for line := range strings.Lines(m.Spec.Description + m.Spec.Caveats) {
		assert.LessOrEqual(t, len(strings.TrimSpace(line)), 80, line)
	}
}
