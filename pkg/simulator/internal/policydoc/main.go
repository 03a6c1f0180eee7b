// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command policydoc writes the releases of CloudStack into the support policy.
package main

import (
	"fmt"
	"os"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/pkg/simulator"
)

func main() {
	parts := []pages.Part{{Name: simulator.DifferencesPart, Want: simulator.DifferencesTable()}}
	if _, err := pages.Refresh(os.Args[1], parts, true); err != nil {
		fmt.Fprintln(os.Stderr, "policydoc:", err)
		os.Exit(1)
	}
}
