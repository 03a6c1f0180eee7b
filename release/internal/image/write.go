// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csccm/csccm/release/internal/access"
)

// Layout writes an index as an OCI image layout to a directory, which it replaces. ref
// (ghcr.io/csccm/cloudstack-ccm:v1.2.3) is the name under which container engines load it.
func Layout(dir string, index v1.ImageIndex, ref name.Tag) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("layout %s: %w", dir, err)
	}
	err = out.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(),
		"io.containerd.image.name":          ref.Name(),
	}))
	if err != nil {
		return fmt.Errorf("layout %s: %w", dir, err)
	}
	return nil
}

// Archive packs an OCI image layout into a tar file that podman, skopeo, containerd and Docker (25 and
// later) load.
func Archive(dir, file string, when time.Time) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	out := tar.NewWriter(f)
	// WalkDir walks in lexical order, so the archive is reproducible.
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return archiveOne(out, dir, path, entry, when)
	})
	if err != nil {
		return fmt.Errorf("archive %s: %w", file, err)
	}
	return out.Close()
}

func archiveOne(out *tar.Writer, dir, path string, entry fs.DirEntry, when time.Time) (err error) {
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.ToSlash(relative), ModTime: when.Truncate(time.Second), Format: tar.FormatPAX}
	if entry.IsDir() {
		header.Typeflag, header.Mode = tar.TypeDir, 0o755
		header.Name += "/"
		return out.WriteHeader(header)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Mode, header.Size = tar.TypeReg, 0o644, info.Size()
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}

// Push pushes an image, an index or a chart to a registry, by tag or only by digest. A nil transport means the default
// transport.
func Push(ctx context.Context, what remote.Taggable, ref name.Reference, transport http.RoundTripper) error {
	if err := remote.Push(ref, what, access.Options(ctx, transport)...); err != nil {
		return fmt.Errorf("push %s: %w", ref.Name(), err)
	}
	return nil
}

// Tag adds a tag to an image, index or chart that has been pushed.
func Tag(ctx context.Context, what remote.Taggable, tag name.Tag, transport http.RoundTripper) error {
	if err := remote.Tag(tag, what, access.Options(ctx, transport)...); err != nil {
		return fmt.Errorf("tag %s: %w", tag.Name(), err)
	}
	return nil
}
