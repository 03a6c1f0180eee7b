// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror copies a release to a registry without Internet access: images, chart, and the artefacts attached to
// them (signatures, provenance, SBOMs), in one archive. Digests do not change.
package mirror

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/csccm/csccm/release/verify"
)

// pathAnnotation is the annotation of an archive's entry with its path, relative to the path of the registry.
const pathAnnotation = "org.opencontainers.image.ref.name"

// Images returns the images and the chart of a release as PATH:TAG, relative to the path of the registry. version has
// no leading v.
func Images(version string) []string {
	tag := strings.ReplaceAll(version, "+", "_")
	return []string{
		"cloudstack-ccm:v" + tag,
		"csccm:v" + tag,
		"cloudstack-sim:v" + tag,
		"charts/cloudstack-ccm:" + tag,
	}
}

// Options are the options of Save and Load.
type Options struct {
	// PlainHTTP is for registries without TLS.
	PlainHTTP bool
	// Progress is called for each item; may be nil.
	Progress func(text string)
}

// reference returns the reference to an item in a registry, which may start with oci://.
func (o Options) reference(registry, item string) (name.Reference, error) {
	ref, err := name.ParseReference(strings.TrimSuffix(strings.TrimPrefix(registry, "oci://"), "/")+"/"+item, oci.Names(o.PlainHTTP)...)
	if err != nil {
		return nil, fmt.Errorf("registry %q: want HOST/PATH, such as registry.example.org/csccm: %w", registry, err)
	}
	return ref, nil
}

func (o Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Save writes items (PATH:TAG, see Images) of a registry (HOST/PATH) and all artefacts attached to them to file.
func Save(ctx context.Context, registry string, items []string, file string, o Options) (err error) {
	work, err := os.MkdirTemp("", "csccm-mirror-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	out, err := layout.Write(work, empty.Index)
	if err != nil {
		return err
	}
	s := saver{Options: o, ctx: ctx, out: out}
	for _, item := range items {
		ref, err := o.reference(registry, item)
		if err != nil {
			return err
		}
		path, _, _ := strings.Cut(item, ":")
		if err := s.save(ref, path, item); err != nil {
			return fmt.Errorf("save %s: %w", ref, err)
		}
	}
	// Use a fixed time, so that the same content gives the same archive.
	return oci.Archive(work, file, time.Unix(0, 0))
}

type saver struct {
	Options
	ctx context.Context //nolint:containedctx // lives as long as Save
	out layout.Path
}

// save adds the image, index or chart that ref refers to, and then the artefacts attached to it.
func (s *saver) save(ref name.Reference, path, entry string) error {
	s.say("save %s", ref)
	described, err := remote.Get(ref, oci.Options(s.ctx)...)
	if err != nil {
		return err
	}
	annotation := layout.WithAnnotations(map[string]string{pathAnnotation: entry})
	digests := []v1.Hash{described.Digest}
	if described.MediaType.IsIndex() {
		index, err := described.ImageIndex()
		if err != nil {
			return err
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return err
		}
		for _, child := range manifest.Manifests {
			digests = append(digests, child.Digest)
		}
		if err := s.out.AppendIndex(index, annotation); err != nil {
			return err
		}
	} else {
		img, err := described.Image()
		if err != nil {
			return err
		}
		if err := s.out.AppendImage(img, annotation); err != nil {
			return err
		}
	}
	for _, digest := range digests {
		if err := s.attached(ref.Context().Digest(digest.String()), path); err != nil {
			return err
		}
	}
	return nil
}

func (s *saver) attached(subject name.Digest, path string) error {
	referrers, err := remote.Referrers(subject, oci.Options(s.ctx)...)
	if err != nil {
		return err
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range manifest.Manifests {
		img, err := remote.Image(subject.Context().Digest(d.Digest.String()), oci.Options(s.ctx)...)
		if err != nil {
			return err
		}
		if err := s.out.AppendImage(img, layout.WithAnnotations(map[string]string{pathAnnotation: path + "@" + d.Digest.String()})); err != nil {
			return err
		}
	}
	tag := verify.SignatureTag(subject)
	img, err := remote.Image(tag, oci.Options(s.ctx)...)
	if err != nil {
		if oci.NotFound(err) {
			return nil
		}
		return err
	}
	return s.out.AppendImage(img, layout.WithAnnotations(map[string]string{pathAnnotation: path + ":" + tag.TagStr()}))
}

// Load pushes the content of an archive to a registry (HOST/PATH) and returns the references with digests.
func Load(ctx context.Context, file, registry string, o Options) (loaded []string, err error) {
	work, err := os.MkdirTemp("", "csccm-mirror-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	all, err := oci.Extract(file, work)
	if err != nil {
		return nil, err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, err
	}
	// Push tags last, so that they always refer to signed images, even if Load is interrupted.
	var tags []func() error
	for _, d := range manifest.Manifests {
		entry := d.Annotations[pathAnnotation]
		if entry == "" {
			return nil, fmt.Errorf("%s is not an archive of a release: it has an entry without a name", filepath.Base(file))
		}
		ref, err := o.reference(registry, entry)
		if err != nil {
			return nil, err
		}
		what, err := content(all, d)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", filepath.Base(file), entry, err)
		}
		o.say("load %s", ref)
		to := ref
		if tag, ok := ref.(name.Tag); ok && !strings.HasSuffix(tag.TagStr(), ".sig") {
			to = ref.Context().Digest(d.Digest.String())
			tags = append(tags, func() error {
				loaded = append(loaded, ref.Name()+"@"+d.Digest.String())
				return oci.Tag(ctx, what, tag)
			})
		}
		if err := oci.Push(ctx, what, to); err != nil {
			return nil, err
		}
	}
	for _, tag := range tags {
		if err := tag(); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

func content(all v1.ImageIndex, d v1.Descriptor) (remote.Taggable, error) {
	if d.MediaType.IsIndex() {
		return all.ImageIndex(d.Digest)
	}
	return all.Image(d.Digest)
}
