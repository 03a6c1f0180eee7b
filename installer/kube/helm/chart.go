// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/mitchellh/copystructure"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/pkg/version"
)

// Chart is a loaded chart.
type Chart struct {
	chart *chart.Chart
	// Source is where the chart was loaded from: "embedded", a path or a URL.
	Source string
}

// Name returns the name in Chart.yaml.
func (c *Chart) Name() string { return c.chart.Metadata.Name }

// Version returns the chart's version, without a leading v.
func (c *Chart) Version() string { return c.chart.Metadata.Version }

// AppVersion returns the version of the controller that the chart installs.
func (c *Chart) AppVersion() string { return c.chart.Metadata.AppVersion }

// copy returns a copy for one action: actions write the values into their chart.
func (c *Chart) copy() *chart.Chart {
	dup := *c.chart
	metadata := *c.chart.Metadata
	dup.Metadata = &metadata
	dup.Values = copyValues(c.chart.Values)
	return &dup
}

// copyValues returns a deep copy, which is never nil.
func copyValues(values map[string]any) map[string]any {
	dup, _ := copystructure.Copy(values) // only locks and channels fail
	if out, _ := dup.(map[string]any); out != nil {
		return out
	}
	return map[string]any{}
}

// Embedded returns the chart embedded in this binary. If the binary's version is semantic, as in builds of releases and
// of commits after a tag, the chart gets the same version, so that csccm installs the controller of its own version.
func Embedded() (*Chart, error) {
	loaded, err := loadFS(charts.FS())
	if err != nil {
		return nil, fmt.Errorf("embedded chart: %w", err)
	}
	stamp(loaded, version.Version)
	return &Chart{chart: loaded, Source: "embedded"}, nil
}

// unstamped is the version of a binary that was built without a tag.
const unstamped = "v0.0.0-dev"

func stamp(c *chart.Chart, v string) {
	parsed, err := semver.StrictNewVersion(strings.TrimPrefix(v, "v"))
	if err != nil || v == unstamped {
		return
	}
	c.Metadata.Version = parsed.String()
	c.Metadata.AppVersion = "v" + parsed.String()
}

// loadFS loads a chart whose Chart.yaml is at the root of files.
func loadFS(files fs.FS) (*chart.Chart, error) {
	var buffered []*loader.BufferedFile
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		buffered = append(buffered, &loader.BufferedFile{Name: path, Data: data})
		return nil
	})
	if err != nil {
		return nil, err
	}
	loaded, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, err
	}
	return loaded, validate(loaded)
}

func validate(c *chart.Chart) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if t := c.Metadata.Type; t != "" && t != "application" {
		return fmt.Errorf("chart %s is of type %s and cannot be installed", c.Metadata.Name, t)
	}
	return nil
}

// Files returns the content of the chart's files by slash-separated path.
func (c *Chart) Files() map[string][]byte {
	out := make(map[string][]byte, len(c.chart.Raw))
	for _, f := range c.chart.Raw {
		out[f.Name] = f.Data
	}
	return out
}

// Annotation returns an annotation in Chart.yaml; "" if it is not set.
func (c *Chart) Annotation(name string) string { return c.chart.Metadata.Annotations[name] }
