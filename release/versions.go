// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// kubernetes holds the Kubernetes versions of a release. Chart and programs have the version of the tag.
type kubernetes struct {
	// Minimum is the oldest version that the chart supports.
	Minimum string `json:"minimum"`
	// Built is the minor version of the Kubernetes libraries in go.mod.
	Built string `json:"built"`
}

// supported defines these versions. Tests compare it with the chart's kubeVersion, go.mod, README and
// docs/support-policy.md.
var supported = kubernetes{Minimum: "1.33", Built: "1.37"}
