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
	var files []*loader.BufferedFile
	err := fs.WalkDir(charts.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(charts.FS(), path)
		files = append(files, &loader.BufferedFile{Name: path, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("embedded chart: %w", err)
	}
	stamp(loaded, version.Version)
	return &Chart{loaded, "embedded"}, nil
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
