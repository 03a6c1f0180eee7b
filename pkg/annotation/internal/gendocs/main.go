// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gendocs writes what is generated from the table of annotations.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/csccm/csccm/pkg/annotation/internal/docs"
)

func main() {
	markdown := flag.String("docs", "", "documentation to write")
	policy := flag.String("policy", "", "chart template to write: the policy that checks values")
	records := flag.String("records", "", "chart template to write: the policy that protects records")
	flag.Parse()
	for name, text := range map[string]string{*markdown: docs.Markdown(), *policy: docs.Policy(), *records: docs.Records()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // for everybody
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
