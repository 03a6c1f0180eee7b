// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
)

// SavedChart is what csccm chart save says.
type SavedChart struct {
	SchemaVersion int    `json:"schemaVersion"`
	Chart         string `json:"chart"`            // file
	Images        string `json:"images"`           // file with the list of images
	Values        string `json:"values,omitempty"` // file with the values for the mirror
}

// Lines lists images one a line, with the name in a mirror where there is one.
func Lines(list []Image) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(strings.TrimSpace(list[i].Image+" "+list[i].Mirror) + "\n")
	}
	return b.String()
}

// SaveChart writes the chart, the list of its images and, with a mirror, the values for it to a folder.
func SaveChart(dir string, chart *helm.Chart, manifest, mirror string) (*SavedChart, error) {
	list, err := List(manifest, mirror)
	if err != nil {
		return nil, err
	}
	out := &SavedChart{SchemaVersion: 1, Images: filepath.Join(dir, "images.txt")}
	unwritable := func(err error) error {
		if err == nil {
			return nil
		}
		return report.Remedied(err, "name a folder that can be made and written to")
	}
	if out.Chart, err = chart.Save(dir); err != nil {
		return nil, unwritable(err)
	}
	if err := os.WriteFile(out.Images, []byte(Lines(list)), 0o644); err != nil { //nolint:gosec // a public list
		return nil, unwritable(err)
	}
	if mirror == "" || len(list) == 0 {
		return out, nil
	}
	repository, _, _ := strings.Cut(list[0].Mirror, "@")
	repository = strings.TrimSuffix(repository, ":"+list[0].Tag)
	values, err := yaml.Marshal(map[string]any{"image": map[string]any{"repository": repository}})
	if err != nil {
		return nil, err
	}
	out.Values = filepath.Join(dir, "values-mirror.yaml")
	return out, unwritable(os.WriteFile(out.Values, values, 0o644)) //nolint:gosec // a public list
}
