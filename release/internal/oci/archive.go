// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/csccm/csccm/release/internal/pack"
)

// Archive packs the OCI image layout in dir into a tar file that podman, skopeo, containerd and Docker (25 and later)
// load.
func Archive(dir, file string, when time.Time) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := pack.NewTar(f, when)
	// WalkDir walks in lexical order, so the archive is reproducible.
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return out.Add(pack.File{Name: filepath.ToSlash(name) + "/", Mode: 0o755})
		}
		data, err := os.ReadFile(path) //nolint:gosec // a temporary directory of this program
		if err != nil {
			return err
		}
		return out.Add(pack.File{Name: filepath.ToSlash(name), Mode: 0o644, Data: data})
	})
	if err != nil {
		return fmt.Errorf("archive %s: %w", file, err)
	}
	return out.Close()
}

// Extract unpacks an archive that Archive wrote into an empty directory, and returns the index of all its content.
func Extract(file, dir string) (all v1.ImageIndex, err error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = extractOne(archive, header, dir)
		}
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", file, err)
		}
	}
	if all, err = layout.ImageIndexFromPath(dir); err != nil {
		return nil, fmt.Errorf("%s is not an archive of a release: %w", filepath.Base(file), err)
	}
	return all, nil
}

func extractOne(content io.Reader, header *tar.Header, dir string) (err error) {
	if !filepath.IsLocal(header.Name) {
		return fmt.Errorf("%q is not a local path", header.Name)
	}
	target := filepath.Join(dir, filepath.FromSlash(header.Name))
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(target, 0o750)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%q is neither a file nor a directory", header.Name)
	}
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, content)
	return err
}
