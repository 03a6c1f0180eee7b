// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pack writes reproducible archives: the same files always give the same bytes.
package pack

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a file of an archive, or a directory if its name ends with a slash.
type File struct {
	// Name is a path with slashes.
	Name string
	// Mode holds the permission bits.
	Mode int64
	Data []byte
}

// Tar writes a tar archive of files that all have the same time and are owned by root.
type Tar struct {
	*tar.Writer
	when time.Time
}

// NewTar returns a Tar that writes to w.
func NewTar(w io.Writer, when time.Time) Tar {
	return Tar{tar.NewWriter(w), when.UTC().Truncate(time.Second)}
}

// Add writes files in the given order.
func (t Tar) Add(files ...File) error {
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Mode: f.Mode, Size: int64(len(f.Data)), ModTime: t.when, Format: tar.FormatPAX,
		}
		if strings.HasSuffix(f.Name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.Data); err != nil {
			return err
		}
	}
	return nil
}

// Write writes an archive with files sorted by name. The suffix of name determines the format: .tar.gz, .tgz or .zip.
func Write(w io.Writer, name string, files []File, when time.Time) error {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range sorted {
		if i > 0 && f.Name == sorted[i-1].Name {
			return fmt.Errorf("archive %s: %s occurs twice", name, f.Name)
		}
		if path.Clean(f.Name) != f.Name || path.IsAbs(f.Name) || strings.HasPrefix(f.Name, "../") {
			return fmt.Errorf("archive %s: %q is not a local path", name, f.Name)
		}
	}
	write := targz
	if strings.HasSuffix(name, ".zip") {
		write = zipped
	}
	if err := write(w, sorted, when); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

func targz(w io.Writer, files []File, when time.Time) error {
	compressed := gzip.NewWriter(w) // the gzip header has no name and no time, so that the bytes are reproducible
	out := NewTar(compressed, when)
	if err := out.Add(files...); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func zipped(w io.Writer, files []File, when time.Time) error {
	out := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: when.UTC().Truncate(time.Second)}
		header.SetMode(fs.FileMode(f.Mode)) //nolint:gosec // permission bits
		member, err := out.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := member.Write(f.Data); err != nil {
			return err
		}
	}
	return out.Close()
}
