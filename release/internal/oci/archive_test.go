// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		_, err := Extract(file, dir)
		require.ErrorContains(t, err, want)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left)
	}
}
