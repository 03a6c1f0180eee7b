// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartpkg packages the Helm chart, reproducibly, and publishes it as a chart repository or to an
// OCI registry.
package chartpkg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/release/internal/notes"
	"github.com/csccm/csccm/release/internal/pack"
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

// Pack packages the chart in dir with the tree's version as version and appVersion. Unlike helm package, the same files
// and tree always give the same bytes.
func Pack(ctx context.Context, dir string, tree source.Tree, annotations Annotations) (*Package, error) {
	loaded, err := helm.LoadContext(ctx, dir, "", false)
	if err != nil {
		return nil, err
	}
	var files []pack.File
	for name, data := range loaded.Files() { // those that .helmignore does not exclude
		if name == "Chart.yaml" {
			if data, err = stamp(data, tree); err == nil {
				data, err = annotate(data, annotations)
			}
			if err != nil {
				return nil, fmt.Errorf("chart %s: %w", dir, err)
			}
		}
		files = append(files, pack.File{Name: path.Join(loaded.Name(), name), Mode: 0o644, Data: data})
	}
	var out bytes.Buffer
	if err := pack.Write(&out, loaded.Name()+".tgz", files, tree.Time); err != nil {
		return nil, err
	}
	// Make sure that Helm can load the package before it is published.
	back, err := helm.LoadArchive(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("chart %s: packaged: %w", dir, err)
	}
	return &Package{Name: back.Name(), Version: back.Version(), Data: out.Bytes()}, nil
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

// Annotations are added to Chart.yaml: data that Artifact Hub shows, and the digest of the controller's image.
type Annotations struct {
	// Images are the images that the chart uses, with digests.
	Images []Image
	// Changes since the previous release.
	Changes []notes.Change
	// SignKey is the PGP key of the provenance file.
	SignKey *SignKey
	// Digest is the digest of the controller's image index, as sha256:HEX. The chart pins the image to it.
	Digest string
}

// digestAnnotation is the annotation from which the chart's templates read the digest of the controller's image.
const digestAnnotation = "csccm.io/image-digest"

// Image is an image that the chart uses.
type Image struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// SignKey identifies a PGP key.
type SignKey struct {
	Fingerprint string `json:"fingerprint"`
	URL         string `json:"url"`
}

var annotationsLine = regexp.MustCompile(`(?m)^annotations:\n`)

// annotate adds annotations to Chart.yaml and leaves the rest unchanged.
func annotate(chartYAML []byte, a Annotations) ([]byte, error) {
	added := map[string]string{}
	for key, value := range map[string]any{"images": a.Images, "changes": a.Changes, "signKey": a.SignKey} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		if s := string(bytes.TrimSpace(text)); s != "null" && s != "[]" {
			added["artifacthub.io/"+key] = string(text)
		}
	}
	if a.Digest != "" {
		added[digestAnnotation] = a.Digest
	}
	for _, change := range a.Changes {
		if change.Kind == "security" {
			added["artifacthub.io/containsSecurityUpdates"] = "true"
		}
	}
	if len(added) == 0 {
		return chartYAML, nil
	}
	at := annotationsLine.FindAllIndex(chartYAML, -1)
	if len(at) != 1 {
		return nil, errors.New("file Chart.yaml has no line annotations:, or several")
	}
	text, err := yaml.Marshal(added)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write(chartYAML[:at[0][1]])
	for line := range strings.Lines(string(text)) {
		out.WriteString("  " + line)
	}
	out.Write(chartYAML[at[0][1]:])
	return out.Bytes(), nil
}
