// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExtract(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "layout")
	require.NoError(t, Layout(folder, index(t), tag(t, "example.org/x:v1")))
	file := filepath.Join(dir, "x.tar")
	require.NoError(t, Archive(folder, file, tree.Time))
	back := filepath.Join(dir, "back")
	require.NoError(t, os.Mkdir(back, 0o700))
	require.NoError(t, Extract(file, back))
	read, err := Read(back)
	require.NoError(t, err)
	have, err := read.Digest()
	require.NoError(t, err)
	want, err := index(t).Digest()
	require.NoError(t, err)
	assert.Equal(t, want, have)
	require.ErrorIs(t, Extract(file, back), os.ErrExist, "nothing is overwritten")
}

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	for want, header := range map[string]*tar.Header{
		`"../x" is not a local path`:      {Name: "../x", Typeflag: tar.TypeReg},
		`"/etc/x" is not a local path`:    {Name: "/etc/x", Typeflag: tar.TypeReg},
		`"x" is neither a file nor a dir`: {Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
	} {
		var out bytes.Buffer
		archive := tar.NewWriter(&out)
		require.NoError(t, archive.WriteHeader(header))
		require.NoError(t, archive.Close())
		file := filepath.Join(t.TempDir(), "x.tar")
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
		dir := t.TempDir()
		require.ErrorContains(t, Extract(file, dir), want)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left)
	}
}
