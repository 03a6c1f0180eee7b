// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gendocs writes docs/checks.md.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/csccm/csccm/installer/check"
)

func main() {
	out := flag.String("o", "", "file to write; empty means standard output")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	var b bytes.Buffer
	if err := check.WriteMarkdown(&b); err != nil {
		return err
	}
	if path == "" {
		_, err := os.Stdout.Write(b.Bytes())
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644) //nolint:gosec // documentation
}
