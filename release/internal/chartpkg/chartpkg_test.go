// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

func packed(t *testing.T, version string) *Package {
	t.Helper()
	p, err := Pack(t.Context(), folder, tree(version), Annotations{})
	require.NoError(t, err)
	return p
}

func TestPackageIsTheEmbeddedChart(t *testing.T) {
	t.Parallel()
	loaded, err := loader.LoadArchive(bytes.NewReader(packed(t, "1.2.3-rc.1").Data))
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

func TestIndex(t *testing.T) {
	t.Parallel()
	const url = "https://example.org/charts/"
	published := filepath.Join(t.TempDir(), "index.yaml")
	when := time.Unix(1700000000, 0).UTC()
	add := func(p *Package, url string, when time.Time) (string, *repo.IndexFile) {
		data, err := Index(write(t, p), url, published, when)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(published, data, 0o600))
		index, err := repo.LoadIndexFile(published)
		require.NoError(t, err)
		return string(data), index
	}
	first, index := add(packed(t, "0.1.0"), url, when)
	entries := index.Entries["cloudstack-ccm"]
	require.Len(t, entries, 1)
	assert.Equal(t, []string{url + "cloudstack-ccm-0.1.0.tgz"}, entries[0].URLs)
	assert.Len(t, entries[0].Digest, 64)
	again, _ := add(packed(t, "0.1.0"), url, when.Add(time.Hour))
	assert.Equal(t, first, again, "no new package, no change")

	add(packed(t, "0.2.0-rc.1"), "", when.Add(time.Hour))
	_, index = add(packed(t, "0.2.0"), "", when.Add(time.Hour))
	var versions []string
	for _, e := range index.Entries["cloudstack-ccm"] {
		versions = append(versions, e.Version)
	}
	assert.Equal(t, []string{"0.2.0", "0.2.0-rc.1", "0.1.0"}, versions)
	assert.True(t, index.Generated.Equal(when.Add(time.Hour)))

	other := tree("0.1.0")
	other.Time = other.Time.Add(time.Hour)
	changed, err := Pack(t.Context(), folder, other, Annotations{})
	require.NoError(t, err)
	_, err = Index(write(t, changed), "", published, when)
	require.ErrorContains(t, err, "a published version does not change")
}

// write writes a package to a new directory.
func write(t *testing.T, p *Package) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), p.Filename())
	require.NoError(t, os.WriteFile(file, p.Data, 0o600))
	return file
}

// A released chart uses the controller's image by digest unless a value overrides it.
func TestReleasedChartIsPinned(t *testing.T) {
	t.Parallel()
	own := "sha256:" + strings.Repeat("a", 64)
	other := "sha256:" + strings.Repeat("b", 64)
	packed, err := Pack(t.Context(), folder, tree("1.2.3"), Annotations{Digest: own})
	require.NoError(t, err)
	chart, err := helm.Load(write(t, packed), "")
	require.NoError(t, err)

	image := regexp.MustCompile(`(?m)^ +image: "?([^"\n]+)"?$`)
	for want, values := range map[string]map[string]any{
		"ghcr.io/csccm/cloudstack-ccm:v1.2.3@" + own:   nil,
		"registry.example.org/x:v1.2.3@" + own:         {"repository": "registry.example.org/x"},
		"ghcr.io/csccm/cloudstack-ccm:v9":              {"tag": "v9"},
		"ghcr.io/csccm/cloudstack-ccm:v1.2.3@" + other: {"digest": other},
		"registry.example.org/x:v9@" + other:           {"repository": "registry.example.org/x", "tag": "v9", "digest": other},
		"registry.example.org/y:v1.2.3":                {"repository": "registry.example.org/y", "tag": "v1.2.3"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			request := helm.ApplyRequest{Name: charts.Name, Chart: chart, KubeVersion: "v1.37.1"}
			if values != nil {
				request.Values = map[string]any{"image": values}
			}
			out, err := helm.Template(t.Context(), "kube-system", request)
			require.NoError(t, err)
			found := image.FindAllStringSubmatch(out, -1)
			require.NotEmpty(t, found)
			for _, f := range found {
				assert.Equal(t, want, f[1])
			}
		})
	}
}
