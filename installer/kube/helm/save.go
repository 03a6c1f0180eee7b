// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// archiveTime is the modification time of all files in an archive, so that packing the same chart
// always gives the same bytes.
var archiveTime = time.Unix(0, 0).UTC()

// Archive packs the chart as helm package does, but reproducibly. name is the name of the file.
func (c *Chart) Archive() (name string, data []byte, err error) {
	metadata, err := yaml.Marshal(c.chart.Metadata)
	if err != nil {
		return "", nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	files := []*chartFile{{Name: "Chart.yaml", Data: metadata}} // with the version of this binary
	for _, f := range c.chart.Raw {
		if f.Name != "Chart.yaml" {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *chartFile) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		err := archive.WriteHeader(&tar.Header{
			Name: path.Join(c.Name(), f.Name), Mode: 0o644, Size: int64(len(f.Data)), ModTime: archiveTime, Format: tar.FormatPAX,
		})
		if err == nil {
			_, err = archive.Write(f.Data)
		}
		if err != nil {
			return "", nil, fmt.Errorf("chart %s: %w", c.Name(), err)
		}
	}
	if err := archive.Close(); err != nil {
		return "", nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	if err := zip.Close(); err != nil {
		return "", nil, fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	return c.Name() + "-" + c.Version() + ".tgz", out.Bytes(), nil
}

// Save packs the chart into a directory and returns the file's path.
func (c *Chart) Save(dir string) (string, error) {
	name, data, err := c.Archive()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, data, 0o644); err != nil { //nolint:gosec // a chart is public
		return "", fmt.Errorf("chart %s: %w", c.Name(), err)
	}
	return file, nil
}
