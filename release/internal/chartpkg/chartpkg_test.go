// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"bytes"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocireg "github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/internal/source"
)

const folder = "../../../charts/cloudstack-ccm"

func tree(version string) source.Tree {
	return source.Tree{Stamp: "v" + version, Version: version, Commit: "abc", Time: time.Unix(1700000000, 0).UTC()}
}

func pack(t *testing.T, version string) *Package {
	t.Helper()
	p, err := Pack(folder, tree(version), Annotations{})
	require.NoError(t, err)
	return p
}

func TestPackIsReproducible(t *testing.T) {
	t.Parallel()
	first := pack(t, "1.2.3")
	// The same files in another directory, with other times.
	copied := filepath.Join(t.TempDir(), charts.Name)
	require.NoError(t, os.CopyFS(copied, os.DirFS(folder)))
	second, err := Pack(copied, tree("1.2.3"), Annotations{})
	require.NoError(t, err)
	assert.True(t, bytes.Equal(first.Data, second.Data))
	assert.False(t, bytes.Equal(first.Data, pack(t, "1.2.4").Data))
	assert.Equal(t, "cloudstack-ccm-1.2.3.tgz", first.Filename())
}

func TestPackageIsTheEmbeddedChart(t *testing.T) {
	t.Parallel()
	loaded, err := loader.LoadArchive(bytes.NewReader(pack(t, "1.2.3-rc.1").Data))
	require.NoError(t, err)
	packaged := map[string]string{}
	for _, f := range loaded.Raw {
		packaged[f.Name] = string(f.Data)
	}
	embedded := map[string]string{}
	require.NoError(t, fs.WalkDir(charts.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(charts.FS(), path)
		embedded[path] = string(data)
		return err
	}))
	delete(packaged, "Chart.yaml")
	delete(embedded, "Chart.yaml")
	assert.Equal(t, embedded, packaged)

	assert.Equal(t, "1.2.3-rc.1", loaded.Metadata.Version)
	assert.Equal(t, "v1.2.3-rc.1", loaded.Metadata.AppVersion)
	assert.Equal(t, "true", loaded.Metadata.Annotations["artifacthub.io/prerelease"])
	assert.Equal(t, ">=1.33.0-0", loaded.Metadata.KubeVersion)
}

func TestStampWantsItsLines(t *testing.T) {
	t.Parallel()
	_, err := stamp([]byte("name: x\nversion: 1\nversion: 2\n"), tree("1.0.0"))
	require.ErrorContains(t, err, "Chart.yaml has 2 lines that match (?m)^version:.*$, want 1")
}

func TestPackRefusesDirectoryWithoutChart(t *testing.T) {
	t.Parallel()
	_, err := Pack(t.TempDir(), tree("1.0.0"), Annotations{})
	require.ErrorContains(t, err, "Chart.yaml file is missing")
}

func TestArchiveIsSortedByItsCaller(t *testing.T) {
	t.Parallel()
	a, err := archive("x", []*chart.File{{Name: "a", Data: []byte("1")}}, time.Unix(1, 999))
	require.NoError(t, err)
	b, err := archive("x", []*chart.File{{Name: "a", Data: []byte("1")}}, time.Unix(1, 0))
	require.NoError(t, err)
	assert.Equal(t, a, b)
}

func TestIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	when := time.Unix(1700000000, 0).UTC()
	write := func(name string, data []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, data, 0o644))
		return file
	}
	read := func(data []byte) *repo.IndexFile {
		index, err := repo.LoadIndexFile(write("read.yaml", data))
		require.NoError(t, err)
		return index
	}

	packages := func(dir string) []string {
		files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		return files
	}

	_, err := pack(t, "0.1.0").Write(dir)
	require.NoError(t, err)
	first, err := Index(packages(dir), "https://example.org/charts/", "", when)
	require.NoError(t, err)
	entries := read(first).Entries["cloudstack-ccm"]
	require.Len(t, entries, 1)
	assert.Equal(t, []string{"https://example.org/charts/cloudstack-ccm-0.1.0.tgz"}, entries[0].URLs)
	assert.Len(t, entries[0].Digest, 64)

	published := write("published.yaml", first)
	again, err := Index(packages(dir), "https://example.org/charts/", published, when.Add(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, string(first), string(again), "no new package, no change")

	// The next release, in another directory.
	next := t.TempDir()
	_, err = pack(t, "0.2.0-rc.1").Write(next)
	require.NoError(t, err)
	_, err = pack(t, "0.2.0").Write(next)
	require.NoError(t, err)
	merged, err := Index(packages(next), "", published, when.Add(time.Hour))
	require.NoError(t, err)
	index := read(merged)
	var versions []string
	for _, e := range index.Entries["cloudstack-ccm"] {
		versions = append(versions, e.Version)
	}
	assert.Equal(t, []string{"0.2.0", "0.2.0-rc.1", "0.1.0"}, versions)
	assert.True(t, index.Generated.Equal(when.Add(time.Hour)))

	// A published version must not change.
	other := tree("0.1.0")
	other.Time = other.Time.Add(time.Hour)
	changed, err := Pack(folder, other, Annotations{})
	require.NoError(t, err)
	_, err = changed.Write(dir)
	require.NoError(t, err)
	_, err = Index(packages(dir), "", published, when)
	require.ErrorContains(t, err, "a published version does not change")
}

// Tags cannot contain a plus sign.
func TestPushVersionWithBuildMetadata(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(ocireg.New(ocireg.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	file, err := pack(t, "1.2.3+x").Write(t.TempDir())
	require.NoError(t, err)
	pushed, err := Push(t.Context(), file, "oci://"+host+"/charts/", false, time.Unix(1700000000, 0))
	require.NoError(t, err)
	assert.Contains(t, pushed, host+"/charts/cloudstack-ccm:1.2.3_x@sha256:")
	loaded, err := helm.Load("oci://"+host+"/charts/cloudstack-ccm", "1.2.3+x")
	require.NoError(t, err)
	assert.Equal(t, "1.2.3+x", loaded.Version())
}

func TestPushRefusesOtherSchemes(t *testing.T) {
	t.Parallel()
	_, err := Push(t.Context(), "x.tgz", "https://host/path", false, time.Time{})
	require.EqualError(t, err, `"https://host/path": want oci://HOST/PATH`)
}
