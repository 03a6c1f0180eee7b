// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/mirror"
)

func platformed(t *testing.T, arch string) v1.Image {
	t.Helper()
	image, err := random.Image(1000, 2)
	require.NoError(t, err)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: arch})
	require.NoError(t, err)
	return image
}

// pushed fills a registry with an image for two architectures and one for a single one.
func pushed(t *testing.T) (registryName string, index, single v1.Hash) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	registryName = strings.TrimPrefix(server.URL, "http://") + "/csccm"
	all := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		all = mutate.AppendManifests(all, mutate.IndexAddendum{
			Add: platformed(t, arch), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	ref, err := name.ParseReference(registryName + "/cloudstack-ccm:v1.2.3")
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, all))
	index, err = all.Digest()
	require.NoError(t, err)
	image := platformed(t, "arm64")
	ref, err = name.ParseReference(registryName + "/single:v1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image))
	single, err = image.Digest()
	require.NoError(t, err)
	return registryName, index, single
}

// entries are the names in an archive for nodes, and the digests that they stand for. Everything that a node of arch needs
// must be in it.
func entries(t *testing.T, file, arch string) map[string]string {
	t.Helper()
	in, err := os.Open(file) // #nosec G304 -- written by the test
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	have := map[string][]byte{}
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // archive/tar returns it as it is
			break
		}
		require.NoError(t, err)
		have[header.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
	}
	blob := func(h v1.Hash) []byte {
		b, ok := have["blobs/sha256/"+h.Hex]
		require.True(t, ok, h.String())
		return b
	}
	parse := func(b []byte) *v1.IndexManifest {
		m, err := v1.ParseIndexManifest(bytes.NewReader(b))
		require.NoError(t, err)
		return m
	}
	out := map[string]string{}
	for _, entry := range parse(have["index.json"]).Manifests {
		out[entry.Annotations["io.containerd.image.name"]] = entry.Digest.String()
		raw := blob(entry.Digest)
		require.Len(t, raw, int(entry.Size))
		if entry.MediaType.IsIndex() {
			for _, child := range parse(raw).Manifests {
				if child.Platform.Architecture == arch {
					raw = blob(child.Digest)
				}
			}
		}
		m, err := v1.ParseManifest(bytes.NewReader(raw))
		require.NoError(t, err)
		var config v1.ConfigFile
		require.NoError(t, json.Unmarshal(blob(m.Config.Digest), &config))
		require.Equal(t, arch, config.Architecture)
		for _, layer := range m.Layers {
			blob(layer.Digest)
		}
	}
	require.Contains(t, have, "oci-layout")
	return out
}

func TestForNode(t *testing.T) {
	t.Parallel()
	from, index, single := pushed(t)
	archive := filepath.Join(t.TempDir(), "csccm.tar")
	require.NoError(t, mirror.Save(t.Context(), from, []string{"cloudstack-ccm:v1.2.3", "single:v1"}, archive, mirror.Options{}))
	ccm := from + "/cloudstack-ccm"
	for name, c := range map[string]struct {
		source, reference, arch string
		want                    map[string]string
	}{
		"tag":                 {"", ccm + ":v1.2.3", "amd64", map[string]string{ccm + ":v1.2.3": index.String()}},
		"digest":              {"", ccm + "@" + index.String(), "arm64", map[string]string{ccm + "@" + index.String(): index.String()}},
		"tag and digest":      {"", ccm + ":v1.2.3@" + index.String(), "arm64", map[string]string{ccm + "@" + index.String(): index.String(), ccm + ":v1.2.3": index.String()}},
		"one architecture":    {"", from + "/single:v1", "arm64", map[string]string{from + "/single:v1": single.String()}},
		"archive":             {archive, "ghcr.io/csccm/cloudstack-ccm:v1.2.3", "amd64", map[string]string{"ghcr.io/csccm/cloudstack-ccm:v1.2.3": index.String()}},
		"archive, by digest":  {archive, "docker.io/x/ccm@" + index.String(), "amd64", map[string]string{"docker.io/x/ccm@" + index.String(): index.String()}},
		"archive, one archit": {archive, "single:v1", "arm64", map[string]string{"docker.io/library/single:v1": single.String()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := mirror.OpenSource(c.source)
			require.NoError(t, err)
			defer func() { require.NoError(t, source.Close()) }()
			var bodies [2][]byte
			for i := range bodies {
				file := filepath.Join(t.TempDir(), "image.tar")
				digest, err := source.ForNode(t.Context(), c.reference, c.arch, file)
				require.NoError(t, err)
				require.Equal(t, c.want, entries(t, file, c.arch))
				for _, want := range c.want {
					require.Equal(t, want, digest)
				}
				bodies[i], err = os.ReadFile(file) // #nosec G304 -- written above
				require.NoError(t, err)
			}
			require.True(t, bytes.Equal(bodies[0], bodies[1]), "not reproducible")
		})
	}
	for want, c := range map[string]struct{ source, reference, arch string }{
		"it is not for linux/riscv64; it is for linux/amd64, linux/arm64": {"", ccm + ":v1.2.3", "riscv64"},
		"it is not for linux/amd64; it is for linux/arm64":                {archive, "single:v1", "amd64"},
		"image " + ccm + ":v9": {"", ccm + ":v9", "amd64"},
		"has no image ghcr.io/csccm/cloudstack-ccm:v9; it has cloudstack-ccm:v1.2.3, single:v1": {archive, "ghcr.io/csccm/cloudstack-ccm:v9", "amd64"},
		"could not parse": {"", "no name", "amd64"},
	} {
		source, err := mirror.OpenSource(c.source)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "image.tar")
		_, err = source.ForNode(t.Context(), c.reference, c.arch, file)
		require.ErrorContains(t, err, want)
		require.NoFileExists(t, file)
		require.NoError(t, source.Close())
	}
	_, err := mirror.OpenSource(archive + ".not")
	require.ErrorContains(t, err, "no such file")
}
