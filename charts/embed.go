// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts embeds the Helm chart of the controller in csccm.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
)

// Name is the name of the chart and of its folder.
const Name = "cloudstack-ccm"

//go:generate go tool -modfile=../.ci/tools/go.mod helm-values-schema-json
//go:generate go run ./internal/readme cloudstack-ccm

// files holds the chart without ci/. The prefix all: includes files that start with an underscore, which the templates
// need.
//
//go:embed cloudstack-ccm/.helmignore cloudstack-ccm/Chart.yaml cloudstack-ccm/README.md cloudstack-ccm/values.yaml
//go:embed cloudstack-ccm/values.schema.json cloudstack-ccm/monitoring all:cloudstack-ccm/templates
var files embed.FS

// FS returns the folder of the chart; Chart.yaml is at its root.
func FS() fs.FS {
	sub, err := fs.Sub(files, Name)
	if err != nil {
		panic(fmt.Sprintf("embedded chart: %v", err)) // the name is a constant
	}
	return sub
}
