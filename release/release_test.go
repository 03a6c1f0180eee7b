// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/internal/chartpkg"
	"github.com/csccm/csccm/release/internal/oci"
)

// productTree is the tree of the product.
func productTree(t *testing.T) *fixture { return &fixture{t: t, dir: ".."} }

// publish writes the charts of two releases and a pre-release to a directory.
func publish(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, version := range []string{"v0.1.0", "v0.2.0-rc.1", "v0.1.1"} {
		productTree(t).must("chart", "--version", version, "--output", dir)
	}
	return dir
}

func serveChartRepository(t *testing.T, dir string) string {
	t.Helper()
	index, err := repo.IndexDirectory(dir, "")
	require.NoError(t, err)
	require.NoError(t, index.WriteFile(filepath.Join(dir, "index.yaml"), 0o644))
	server := httptest.NewServer(http.StripPrefix("/charts", http.FileServer(http.Dir(dir))))
	t.Cleanup(server.Close)
	return server.URL + "/charts"
}

// pushChart pushes a packaged chart as publish does.
func pushChart(t *testing.T, file string, tag name.Tag) {
	t.Helper()
	artifact, err := chartpkg.Artifact(t.Context(), file, time.Unix(1700000000, 0))
	require.NoError(t, err)
	require.NoError(t, oci.Push(t.Context(), artifact, tag))
}

func serveRegistry(t *testing.T, dir string) string {
	t.Helper()
	tr := newTrial(t, enough)
	for _, version := range []string{"0.1.0", "0.2.0-rc.1", "0.1.1"} {
		pushChart(t, filepath.Join(dir, "cloudstack-ccm-"+version+".tgz"), tr.tag(t, "charts/cloudstack-ccm:"+version))
	}
	return "oci://" + tr.registry + "/charts"
}

// Loading the chart from a directory, a file, a chart repository and a registry gives the same chart.
func TestChartFromAllSources(t *testing.T) {
	t.Parallel()
	dir := publish(t)
	repository := serveChartRepository(t, dir)
	registry := serveRegistry(t, dir)

	archive, err := helm.Load(filepath.Join(dir, "cloudstack-ccm-0.1.1.tgz"), "")
	require.NoError(t, err)
	render := func(c *helm.Chart) string {
		out, err := helm.Template(t.Context(), "kube-system", helm.ApplyRequest{
			Name: "cloudstack-ccm", Chart: c, KubeVersion: "v1.37.1", Values: map[string]any{"clusterName": "x"},
		})
		require.NoError(t, err)
		return out
	}
	want := render(archive)
	assert.Contains(t, want, "ghcr.io/csccm/cloudstack-ccm:v0.1.1")

	for name, tc := range map[string]struct{ ref, version, want string }{
		"repository, latest release":  {repository, "", "0.1.1"},
		"repository, named chart":     {repository + "/cloudstack-ccm", "", "0.1.1"},
		"repository, with a slash":    {repository + "/", "0.1.1", "0.1.1"},
		"repository, version":         {repository, "0.1.0", "0.1.0"},
		"repository, v before it":     {repository, "v0.1.0", "0.1.0"},
		"repository, range":           {repository, "~0.1", "0.1.1"},
		"repository, pre-release":     {repository, "0.2.0-rc.1", "0.2.0-rc.1"},
		"URL of the package":          {repository + "/cloudstack-ccm-0.1.1.tgz", "", "0.1.1"},
		"registry, latest release":    {registry + "/cloudstack-ccm", "", "0.1.1"},
		"registry, version":           {registry + "/cloudstack-ccm", "v0.1.0", "0.1.0"},
		"registry, range":             {registry + "/cloudstack-ccm", "^0.1.0", "0.1.1"},
		"registry, pre-release":       {registry + "/cloudstack-ccm", "0.2.0-rc.1", "0.2.0-rc.1"},
		"registry, tag":               {registry + "/cloudstack-ccm:0.1.1", "", "0.1.1"},
		"registry, version 0.1.1":     {registry + "/cloudstack-ccm", "0.1.1", "0.1.1"},
		"repository, version of file": {repository + "/cloudstack-ccm-0.1.0.tgz", "", "0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, err := helm.Load(tc.ref, tc.version)
			require.NoError(t, err)
			assert.Equal(t, tc.want, loaded.Version())
			if tc.want == "0.1.1" {
				assert.Equal(t, archive.Files(), loaded.Files())
				assert.Equal(t, want, render(loaded))
			}
		})
	}
}

func TestChartNotFound(t *testing.T) {
	t.Parallel()
	dir := publish(t)
	repository := serveChartRepository(t, dir)
	registry := serveRegistry(t, dir)
	for name, tc := range map[string]struct{ ref, version, want string }{
		"no repository":       {repository + "/a/b", "", "no chart repository"},
		"no such chart":       {repository + "/other", "", "index.yaml has no chart other"},
		"no such version":     {repository, "9.9.9", "index.yaml has no version 9.9.9 of cloudstack-ccm"},
		"no such package":     {repository + "/cloudstack-ccm-9.tgz", "", "cloudstack-ccm-9.tgz: not found"},
		"no such tag":         {registry + "/cloudstack-ccm", "9.9.9", "pull: "},
		"no version in range": {registry + "/cloudstack-ccm", ">9", "the registry has no version >9"},
		"no such OCI chart":   {registry + "/other", "", "list tags: "},
		"tag and version":     {registry + "/cloudstack-ccm:0.1.0", "0.1.0", "cannot be combined with version 0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := helm.Load(tc.ref, tc.version)
			require.ErrorContains(t, err, tc.want)
			assert.Contains(t, err.Error(), "chart "+tc.ref)
		})
	}
}

func TestChartWithWrongDigest(t *testing.T) {
	t.Parallel()
	dir := publish(t)
	repository := serveChartRepository(t, dir)
	other, err := os.ReadFile(filepath.Join(dir, "cloudstack-ccm-0.1.0.tgz"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cloudstack-ccm-0.1.1.tgz"), other, 0o644))
	_, err = helm.Load(repository, "")
	require.ErrorContains(t, err, "index.yaml says")
}

func TestPasswordOfARepositoryIsNotShown(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	ref := strings.Replace(server.URL, "http://", "http://user:geheim@", 1)
	_, err := helm.Load(ref, "")
	require.ErrorContains(t, err, "403 Forbidden")
	assert.NotContains(t, err.Error(), "geheim")
}

func TestImageCommandRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--platform: nothing is released for "linux", want some of [linux/amd64 `: {"--platform", "linux"},
		"--only: there is no program x":                                           {"--only", "x"},
		"--registry: ":                                                            {"--registry", "UPPER case"},
	} {
		_, err := productTree(t).release(append([]string{"image", "--version", "v1.0.0", "--output", t.TempDir()}, args...)...)
		require.ErrorContains(t, err, want)
	}
}

func TestCertificatesCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "etc", "ca.crt")
	productTree(t).must("certificates", file)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(raw), "-----BEGIN CERTIFICATE-----")
}

// pinnedBase matches the one image from elsewhere in the Dockerfile.
var pinnedBase = regexp.MustCompile(`(?m)^FROM --platform=\$BUILDPLATFORM (golang:1\.\d+\.\d+@sha256:[0-9a-f]{64}) AS build$`)

// The images are those of the Dockerfile, and each has a program in cmd/.
func TestImagesMatchDockerfile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	assert.Len(t, pinnedBase.FindAll(raw, -1), 1, "the image from elsewhere is not pinned by digest")
	assert.Equal(t, len(products)+2, strings.Count(string(raw), "\nFROM "), "the image from elsewhere, base, and one for each program")
	for _, p := range products {
		spec := p.Spec
		assert.Contains(t, string(raw), "FROM base AS "+spec.Name+"\n")
		assert.Contains(t, string(raw), `ENTRYPOINT ["/`+spec.Name+`"]`)
		assert.Contains(t, string(raw), spec.Description)
		_, err := os.Stat(filepath.Join("..", "cmd", spec.Name))
		require.NoError(t, err)
	}
}
