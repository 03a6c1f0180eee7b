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
