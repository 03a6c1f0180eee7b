// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image builds container images from scratch: certificates and one binary, without a container engine or a base
// image.
package image

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/csccm/csccm/pkg/version"
	"github.com/csccm/csccm/release/internal/oci"
	"github.com/csccm/csccm/release/internal/pack"
	"github.com/csccm/csccm/release/internal/source"
)

// User is the user ID of the process, which belongs to no user of the node.
const User = 65532

// Spec describes an image.
type Spec struct {
	// Name is the name of the image and of its binary, which is at /NAME.
	Name, Title, Description string
	// Args are the default arguments.
	Args []string
	// Port is the port that the process listens on; 0 means none.
	Port int
}

// One returns the image for one platform with its binary.
func One(spec Spec, platform source.Platform, binary []byte, tree source.Tree) (v1.Image, error) {
	certificates, err := Certificates()
	if err != nil {
		return nil, err
	}
	base, err := layer(tree.Time, []pack.File{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/ssl/", Mode: 0o755},
		{Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: certificates},
		{Name: "tmp/", Mode: 0o1777},
	})
	if err != nil {
		return nil, err
	}
	program, err := layer(tree.Time, []pack.File{{Name: spec.Name, Mode: 0o755, Data: binary}})
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: tree.Time}
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: v1.History{Created: created, CreatedBy: "csccm release", Comment: "CA certificates"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: "csccm release", Comment: "/" + spec.Name}},
	)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = platform.OS, platform.Arch
	config.Created = created
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", User, User),
		Entrypoint: []string{path.Join("/", spec.Name)},
		Cmd:        spec.Args,
		Env:        []string{"PATH=/", "HOME=/tmp"},
		WorkingDir: "/",
		Labels:     Labels(spec, tree),
	}
	if spec.Port > 0 {
		config.Config.ExposedPorts = map[string]struct{}{strconv.Itoa(spec.Port) + "/tcp": {}}
	}
	return mutate.ConfigFile(img, config)
}

// Labels returns the OCI labels of an image.
func Labels(spec Spec, tree source.Tree) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":         spec.Title,
		"org.opencontainers.image.description":   spec.Description,
		"org.opencontainers.image.url":           version.Repository,
		"org.opencontainers.image.source":        version.Repository,
		"org.opencontainers.image.documentation": version.Repository + "/tree/main/docs",
		"org.opencontainers.image.vendor":        "The csccm Authors",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.version":       tree.Tag(),
		"org.opencontainers.image.created":       tree.Time.UTC().Format(time.RFC3339),
	}
	if tree.Commit != "unknown" {
		labels["org.opencontainers.image.revision"] = tree.Commit
	}
	return labels
}

// layer returns a compressed tar archive of files, in the given order.
func layer(when time.Time, files []pack.File) (v1.Layer, error) {
	var buf bytes.Buffer
	out := pack.NewTar(&buf, when)
	if err := errors.Join(out.Add(files...), out.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressedCaching,
	)
}

// Many combines the images for several platforms into an index.
func Many(spec Spec, tree source.Tree, platforms []source.Platform, images []v1.Image) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for i, img := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img,
			Descriptor: v1.Descriptor{
				MediaType: types.OCIManifestSchema1,
				Platform:  &v1.Platform{OS: platforms[i].OS, Architecture: platforms[i].Arch},
			},
		})
	}
	annotated, ok := mutate.Annotations(index, Labels(spec, tree)).(v1.ImageIndex)
	if !ok {
		return index // cannot happen: Annotations returns the type of its argument
	}
	return annotated
}

// Archive writes an index to a file as an archive of an OCI image layout. ref (ghcr.io/csccm/cloudstack-ccm:v1.2.3) is
// the name under which container engines load it.
func Archive(file string, index v1.ImageIndex, ref name.Tag, when time.Time) (err error) {
	dir, err := os.MkdirTemp("", "csccm-layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("layout of %s: %w", file, err)
	}
	err = out.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(),
		"io.containerd.image.name":          ref.Name(),
	}))
	if err != nil {
		return fmt.Errorf("layout of %s: %w", file, err)
	}
	return oci.Archive(dir, file, when)
}

// Certificates returns Mozilla's root certificates in PEM format. It omits roots that are trusted only under conditions
// (for certificates issued before a date), because a PEM file cannot express the conditions.
func Certificates() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if out.Len() == 0 {
		return nil, errors.New("no root certificates")
	}
	return out.Bytes(), nil
}
