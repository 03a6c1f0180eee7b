// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	when  = time.Date(2023, 11, 14, 22, 13, 20, 999, time.UTC)
	files = []File{{"man/x.1", 0o644, []byte("page")}, {"x", 0o755, []byte("binary")}, {"LICENSE", 0o644, []byte("text")}}
)

func write(t *testing.T, name string, files []File, when time.Time) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Write(&out, name, files, when))
	return out.Bytes()
}

func TestArchivesDependOnContentAlone(t *testing.T) {
	t.Parallel()
	other := []File{files[2], files[0], files[1]}
	for _, name := range []string{"x.tar.gz", "x.zip"} {
		first := write(t, name, files, when)
		assert.Equal(t, first, write(t, name, other, when.In(time.FixedZone("", 3600))), name)
		assert.NotEqual(t, first, write(t, name, files[:2], when), name)
	}
}

func TestTarGz(t *testing.T) {
	t.Parallel()
	zip, err := gzip.NewReader(bytes.NewReader(write(t, "x.tar.gz", files, when)))
	require.NoError(t, err)
	in := tar.NewReader(zip)
	for _, want := range []File{files[2], files[0], files[1]} {
		header, err := in.Next()
		require.NoError(t, err)
		data, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.Equal(t, want, File{header.Name, header.Mode, data})
		assert.Equal(t, when.Unix(), header.ModTime.Unix())
		assert.Zero(t, header.Uid)
	}
	_, err = in.Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestZip(t *testing.T) {
	t.Parallel()
	data := write(t, "x.zip", files, when)
	in, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, in.File, 3)
	assert.Equal(t, "x", in.File[2].Name)
	assert.EqualValues(t, 0o755, in.File[2].Mode().Perm())
	assert.True(t, in.File[2].Modified.Equal(when.Truncate(time.Second)))
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	for want, tc := range map[string]struct {
		name  string
		files []File
	}{
		"archive x.zip: x occurs twice":                  {"x.zip", []File{files[1], files[1]}},
		`archive x.tgz: "../x" is not a local path`:      {"x.tgz", []File{{Name: "../x"}}},
		`archive x.tgz: "/etc/x" is not a local path`:    {"x.tgz", []File{{Name: "/etc/x"}}},
		`archive x.tgz: "a/../../x" is not a local path`: {"x.tgz", []File{{Name: "a/../../x"}}},
	} {
		require.EqualError(t, Write(io.Discard, tc.name, tc.files, when), want)
	}
}
