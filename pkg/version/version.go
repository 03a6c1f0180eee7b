// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version identifies this build of csccm; the linker sets the values.
package version

import "fmt"

// Set by -ldflags "-X github.com/csccm/csccm/pkg/version.Version=v1.2.3 ...".
var (
	Version = "v0.0.0-dev"
	Commit  = "unknown"
	Date    = "unknown"
)

// String returns the line that every binary prints for --version.
func String() string { return fmt.Sprintf("%s (commit %s, built %s)", Version, Commit, Date) }

// The places where csccm is published. Only this package contains them: Go code uses the constants, and a test of docs/
// compares all other texts with them.
const (
	Repository = "https://github.com/csccm/csccm" // the source, issues and releases
	// Pages is the prefix of URLs of the repository's files, for people, such as Pages + "docs/checks.md#node-001".
	Pages = Repository + "/blob/main/"
	Raw   = "https://raw.githubusercontent.com/csccm/csccm/main/" // the same for programs
	// Downloads is the prefix of URLs of release files, such as Downloads + "/v1.2.3/" + file.
	Downloads = Repository + "/releases/download"
	Charts    = "https://csccm.github.io/csccm/charts" // the chart repository (helm repo add)
	Registry  = "ghcr.io/csccm"                        // the images, and the chart below charts/
)
