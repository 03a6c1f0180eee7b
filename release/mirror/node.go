// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csccm/csccm/release/internal/oci"
)

// nameAnnotation is the annotation of an archive's entry by which containerd names the image that it imports.
const nameAnnotation = "io.containerd.image.name"

// Source is where images of nodes come from: an archive that Save wrote, or, without one, their registries.
type Source struct {
	file, work string
	all        v1.ImageIndex
}

// OpenSource opens an archive that Save wrote. Without a file the images come from their registries.
func OpenSource(file string) (*Source, error) {
	s := &Source{file: file}
	if file == "" {
		return s, nil
	}
	var err error
	if s.work, err = os.MkdirTemp("", "csccm-images-"); err != nil {
		return nil, err
	}
	if s.all, err = oci.Extract(file, s.work); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close removes what was extracted.
func (s *Source) Close() error {
	if s.work == "" {
		return nil
	}
	return os.RemoveAll(s.work)
}

// ForNode writes an archive with an image, for nodes of one architecture: containerd imports it under the very name that
// reference is. It returns the digest of what reference refers to, which may be an image for several architectures; only
// the image of this one is in the archive.
func (s *Source) ForNode(ctx context.Context, reference, arch, file string) (digest string, err error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", err
	}
	described, err := s.find(ctx, ref, reference)
	if err != nil {
		return "", err
	}
	image, err := described.forArch(arch)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", reference, err)
	}
	work, err := os.MkdirTemp("", "csccm-image-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	out, err := layout.Write(work, empty.Index)
	if err != nil {
		return "", err
	}
	if err := out.WriteImage(image); err != nil {
		return "", fmt.Errorf("image %s: %w", reference, err)
	}
	if described.index != nil {
		if err := out.WriteBlob(described.Digest, io.NopCloser(bytes.NewReader(described.raw))); err != nil {
			return "", err
		}
	}
	for _, name := range nodeNames(ref, reference) {
		entry := v1.Descriptor{
			MediaType: described.MediaType, Size: int64(len(described.raw)), Digest: described.Digest,
			Annotations: map[string]string{nameAnnotation: name},
		}
		if err := out.AppendDescriptor(entry); err != nil {
			return "", err
		}
	}
	return described.Digest.String(), oci.Archive(work, file, time.Unix(0, 0))
}

// nodeNames returns the names by which the kubelet looks an image up: with tag and digest it looks for the digest alone.
func nodeNames(ref name.Reference, reference string) []string {
	repository := strings.Replace(ref.Context().Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	if tag, ok := ref.(name.Tag); ok {
		return []string{repository + ":" + tag.TagStr()}
	}
	names := []string{repository + "@" + ref.Identifier()}
	tagged, _, _ := strings.Cut(reference, "@")
	if tag, err := name.NewTag(tagged, name.StrictValidation); err == nil {
		names = append(names, repository+":"+tag.TagStr())
	}
	return names
}

// described is what a reference refers to.
type described struct {
	v1.Descriptor
	raw   []byte        // its manifest
	index v1.ImageIndex // nil for an image of one architecture
	image v1.Image
}

func (s *Source) find(ctx context.Context, ref name.Reference, reference string) (*described, error) {
	if s.all == nil {
		got, err := remote.Get(ref, oci.Options(ctx)...)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", reference, err)
		}
		d := &described{Descriptor: got.Descriptor, raw: got.Manifest}
		if got.MediaType.IsIndex() {
			d.index, err = got.ImageIndex()
		} else {
			d.image, err = got.Image()
		}
		return d, err
	}
	manifest, err := s.all.IndexManifest()
	if err != nil {
		return nil, err
	}
	var entries []string
	for _, entry := range manifest.Manifests {
		path := entry.Annotations[pathAnnotation]
		if path == "" {
			return nil, fmt.Errorf("%s is not an archive of a release: it has an entry without a name", filepath.Base(s.file))
		}
		if tag, ok := ref.(name.Tag); entry.Digest.String() == ref.Identifier() || ok && strings.HasSuffix("/"+tag.Name(), "/"+path) {
			d := &described{Descriptor: entry}
			if entry.MediaType.IsIndex() {
				if d.index, err = s.all.ImageIndex(entry.Digest); err == nil {
					d.raw, err = d.index.RawManifest()
				}
			} else if d.image, err = s.all.Image(entry.Digest); err == nil {
				d.raw, err = d.image.RawManifest()
			}
			return d, err
		}
		entries = append(entries, path)
	}
	return nil, fmt.Errorf("%s has no image %s; it has %s", s.file, reference, strings.Join(entries, ", "))
}

// forArch returns the image for Linux on an architecture.
func (d *described) forArch(arch string) (v1.Image, error) {
	var have []string
	if d.index == nil {
		config, err := d.image.ConfigFile()
		if err != nil {
			return nil, err
		}
		if config.OS == "linux" && config.Architecture == arch {
			return d.image, nil
		}
		have = []string{config.OS + "/" + config.Architecture}
	} else {
		manifest, err := d.index.IndexManifest()
		if err != nil {
			return nil, err
		}
		for _, m := range manifest.Manifests {
			if m.Platform == nil {
				continue
			}
			if m.Platform.OS == "linux" && m.Platform.Architecture == arch {
				return d.index.Image(m.Digest)
			}
			have = append(have, m.Platform.OS+"/"+m.Platform.Architecture)
		}
	}
	return nil, fmt.Errorf("it is not for linux/%s; it is for %s", arch, strings.Join(have, ", "))
}
