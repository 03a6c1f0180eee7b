// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gendocs writes docs/annotations.md.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/csccm/csccm/pkg/annotation/internal/docs"
)

func main() {
	output := flag.String("output", "", "file to write")
	flag.Parse()
	if err := os.WriteFile(*output, []byte(docs.Markdown()), 0o644); err != nil { //nolint:gosec // documentation is for everybody
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
