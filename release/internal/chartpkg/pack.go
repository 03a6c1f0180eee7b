// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartpkg packages the Helm chart, reproducibly, and publishes it as a chart repository or to an
// OCI registry.
package chartpkg

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/csccm/csccm/release/internal/source"
)

// Package is a packaged chart.
type Package struct {
	Name, Version string
	// Data is the tgz.
	Data []byte
}

// Filename returns the file name, as helm package chooses it.
func (p *Package) Filename() string { return p.Name + "-" + p.Version + ".tgz" }

// Write writes the package to a directory, which it creates, and returns the file's path.
func (p *Package) Write(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a public artefact
		return "", err
	}
	file := filepath.Join(dir, p.Filename())
	return file, os.WriteFile(file, p.Data, 0o644) //nolint:gosec // a public artefact
}

// Pack packages the chart in dir with the tree's version as version and appVersion. Unlike helm package, the same files
// and tree always give the same bytes.
func Pack(dir string, tree source.Tree, annotations Annotations) (*Package, error) {
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, err)
	}
	// Raw holds the files that .helmignore does not exclude.
	files := slices.Clone(loaded.Raw)
	slices.SortFunc(files, func(a, b *chart.File) int { return cmp.Compare(a.Name, b.Name) })
	for i, f := range files {
		if f.Name == "Chart.yaml" {
			stamped, err := stamp(f.Data, tree)
			if err == nil {
				stamped, err = annotate(stamped, annotations)
			}
			if err != nil {
				return nil, fmt.Errorf("chart %s: %w", dir, err)
			}
			files[i] = &chart.File{Name: f.Name, Data: stamped}
		}
	}
	data, err := archive(loaded.Metadata.Name, files, tree.Time)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", dir, err)
	}
	// Make sure that Helm can load the package before it is published.
	back, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("chart %s: packaged: %w", dir, err)
	}
	if err := back.Validate(); err != nil {
		return nil, fmt.Errorf("chart %s: packaged: %w", dir, err)
	}
	return &Package{Name: back.Metadata.Name, Version: back.Metadata.Version, Data: data}, nil
}

var (
	versionLine    = regexp.MustCompile(`(?m)^version:.*$`)
	appVersionLine = regexp.MustCompile(`(?m)^appVersion:.*$`)
	prereleaseLine = regexp.MustCompile(`(?m)^(\s*artifacthub\.io/prerelease:).*$`)
)

// stamp sets the versions in Chart.yaml and leaves the rest, including comments, unchanged.
func stamp(chartYAML []byte, tree source.Tree) ([]byte, error) {
	out := chartYAML
	for _, line := range []struct {
		pattern *regexp.Regexp
		text    string
	}{
		{versionLine, "version: " + tree.Version},
		{appVersionLine, "appVersion: " + tree.Tag()},
		{prereleaseLine, fmt.Sprintf(`${1} "%t"`, strings.Contains(tree.Version, "-"))},
	} {
		if n := len(line.pattern.FindAll(out, -1)); n != 1 {
			return nil, fmt.Errorf("file Chart.yaml has %d lines that match %s, want 1", n, line.pattern)
		}
		out = line.pattern.ReplaceAll(out, []byte(line.text))
	}
	return out, nil
}

func archive(name string, files []*chart.File, when time.Time) ([]byte, error) {
	var buf bytes.Buffer
	// The gzip header has no name and no time, so that the bytes are reproducible.
	zip, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	out := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     path.Join(name, f.Name),
			Mode:     0o644,
			Size:     int64(len(f.Data)),
			ModTime:  when.Truncate(time.Second),
			Format:   tar.FormatPAX,
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
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
