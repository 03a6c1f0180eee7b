// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts carries the Helm chart of the controller inside csccm.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
)

// Name is the chart's name and that of its folder.
const Name = "cloudstack-ccm"

//go:generate go tool -modfile=../.ci/tools/go.mod helm-values-schema-json
//go:generate go run ./internal/readme cloudstack-ccm

// The chart's files without ci/. The prefix all: includes files that start with an underscore, which templates need.
//
//go:embed cloudstack-ccm/.helmignore cloudstack-ccm/Chart.yaml cloudstack-ccm/README.md cloudstack-ccm/values.yaml
//go:embed cloudstack-ccm/values.schema.json cloudstack-ccm/monitoring all:cloudstack-ccm/templates
var files embed.FS

// FS is the chart's folder: Chart.yaml is at its root.
func FS() fs.FS {
	sub, err := fs.Sub(files, Name)
	if err != nil {
		panic(fmt.Sprintf("embedded chart: %v", err)) // the name is a constant
	}
	return sub
}
