// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image builds container images from scratch: certificates and one binary, without a container engine or a base
// image.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/csccm/csccm/release/internal/gobuild"
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

// File is a file of a layer, or a directory if its name ends with a slash.
type File struct {
	Name string
	Mode int64
	Data []byte
}

// One returns the image for one platform with its binary.
func One(spec Spec, platform gobuild.Platform, binary []byte, tree source.Tree) (v1.Image, error) {
	certificates, err := Certificates()
	if err != nil {
		return nil, err
	}
	base, err := layer(tree.Time, []File{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/ssl/", Mode: 0o755},
		{Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: certificates},
		{Name: "tmp/", Mode: 0o1777},
	})
	if err != nil {
		return nil, err
	}
	program, err := layer(tree.Time, []File{{Name: spec.Name, Mode: 0o755, Data: binary}})
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
		"org.opencontainers.image.url":           "https://github.com/csccm/csccm",
		"org.opencontainers.image.source":        "https://github.com/csccm/csccm",
		"org.opencontainers.image.documentation": "https://github.com/csccm/csccm/tree/main/docs",
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

// layer returns a compressed tar archive of files, in the given order, all with the same time and owned by root.
func layer(when time.Time, files []File) (v1.Layer, error) {
	var buf bytes.Buffer
	out := tar.NewWriter(&buf)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.Name,
			Mode:     f.Mode,
			Size:     int64(len(f.Data)),
			ModTime:  when.Truncate(time.Second),
			Format:   tar.FormatPAX,
		}
		if f.Name[len(f.Name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := out.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	data := buf.Bytes()
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressedCaching,
	)
}

// Many combines the images for several platforms into an index.
func Many(spec Spec, tree source.Tree, platforms []gobuild.Platform, images []v1.Image) v1.ImageIndex {
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
