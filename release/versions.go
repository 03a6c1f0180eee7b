// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// kubernetes are the versions that a release is for. Those of the chart and the programs are the tag's.
type kubernetes struct {
	// Minimum is the oldest that the chart installs on.
	Minimum string `json:"minimum"`
	// Built is the minor version of the Kubernetes libraries in go.mod.
	Built string `json:"built"`
}

// supported is the one place for them: tests hold the chart's kubeVersion, go.mod, README and docs/support-policy.md to it.
var supported = kubernetes{Minimum: "1.33", Built: "1.37"}
