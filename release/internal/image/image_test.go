// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/oci"
	"github.com/csccm/csccm/release/internal/source"
)

var (
	spec      = Spec{Name: "cloudstack-ccm", Title: "title", Description: "description", Port: 10258}
	tree      = source.Tree{Stamp: "v1.2.3", Version: "1.2.3", Commit: "abcdef", Time: time.Unix(1700000000, 0).UTC()}
	platforms = []source.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}
)

func index(t *testing.T) v1.ImageIndex {
	t.Helper()
	var images []v1.Image
	for _, p := range platforms {
		img, err := One(spec, p, []byte("binary for "+p.String()), tree)
		require.NoError(t, err)
		images = append(images, img)
	}
	return Many(spec, tree, platforms, images)
}

func TestContent(t *testing.T) {
	t.Parallel()
	built := index(t)
	manifest, err := built.IndexManifest()
	require.NoError(t, err)
	assert.Equal(t, types.OCIImageIndex, manifest.MediaType)
	assert.Equal(t, "v1.2.3", manifest.Annotations["org.opencontainers.image.version"])
	require.Len(t, manifest.Manifests, 2)
	for i, p := range platforms {
		assert.Equal(t, p.OS, manifest.Manifests[i].Platform.OS)
		assert.Equal(t, p.Arch, manifest.Manifests[i].Platform.Architecture)
		img, err := built.Image(manifest.Manifests[i].Digest)
		require.NoError(t, err)
		config, err := img.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, p.Arch, config.Architecture)
		assert.Equal(t, "65532:65532", config.Config.User)
		assert.Equal(t, []string{"/cloudstack-ccm"}, config.Config.Entrypoint)
		assert.Equal(t, "abcdef", config.Config.Labels["org.opencontainers.image.revision"])
		assert.True(t, config.Created.Equal(tree.Time))

		files := extract(t, img)
		assert.Equal(t, "binary for "+p.String(), files["cloudstack-ccm"])
		pool := x509.NewCertPool()
		assert.True(t, pool.AppendCertsFromPEM([]byte(files["etc/ssl/certs/ca-certificates.crt"])))
		assert.Greater(t, strings.Count(files["etc/ssl/certs/ca-certificates.crt"], "BEGIN CERTIFICATE"), 50)
		assert.Contains(t, files, "tmp/")
		assert.Len(t, files, 6)
	}
}

func extract(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	reader := mutate.Extract(img)
	defer func() { require.NoError(t, reader.Close()) }()
	files := map[string]string{}
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		var data bytes.Buffer
		_, err = io.Copy(&data, archive)
		require.NoError(t, err)
		name := header.Name
		if header.Typeflag == tar.TypeDir {
			name = strings.TrimSuffix(name, "/") + "/"
		}
		files[name] = data.String()
		assert.Zero(t, header.Uid)
		assert.True(t, header.ModTime.Equal(tree.Time), header.Name)
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	ref, err := name.NewTag("registry.example.org/csccm/cloudstack-ccm:v1.2.3")
	require.NoError(t, err)
	var archives [2][]byte
	for i := range archives {
		file := filepath.Join(t.TempDir(), "x.tar")
		require.NoError(t, Archive(file, index(t), ref, tree.Time))
		archives[i], err = os.ReadFile(file)
		require.NoError(t, err)
		all, err := oci.Extract(file, t.TempDir())
		require.NoError(t, err)
		manifest, err := all.IndexManifest()
		require.NoError(t, err)
		require.Len(t, manifest.Manifests, 1)
		assert.Equal(t, ref.Name(), manifest.Manifests[0].Annotations["io.containerd.image.name"])
		digest, err := index(t).Digest()
		require.NoError(t, err)
		assert.Equal(t, digest, manifest.Manifests[0].Digest)
	}
	assert.True(t, bytes.Equal(archives[0], archives[1]))
}
