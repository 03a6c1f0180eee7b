// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pack writes reproducible archives: the same files always give the same bytes.
package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
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

// File is a file of an archive.
type File struct {
	// Name is a path with slashes.
	Name string
	// Mode is 0o644 or 0o755.
	Mode int64
	Data []byte
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
	when = when.UTC().Truncate(time.Second)
	write := targz
	switch {
	case strings.HasSuffix(name, ".zip"):
		write = zipped
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
	default:
		return fmt.Errorf("archive %s: want .tar.gz, .tgz or .zip", name)
	}
	if err := write(w, sorted, when); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

func targz(w io.Writer, files []File, when time.Time) error {
	// The gzip header has no name and no time, so that the bytes are reproducible.
	zip, err := gzip.NewWriterLevel(w, gzip.DefaultCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Mode: f.Mode, Size: int64(len(f.Data)), ModTime: when, Format: tar.FormatPAX,
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := out.Write(f.Data); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return zip.Close()
}

func zipped(w io.Writer, files []File, when time.Time) error {
	out := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: when}
		header.SetMode(fs.FileMode(f.Mode)) //nolint:gosec // permission bits
		member, err := out.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := io.Copy(member, bytes.NewReader(f.Data)); err != nil {
			return err
		}
	}
	return out.Close()
}
