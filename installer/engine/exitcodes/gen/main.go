// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen writes docs/exit-codes.md.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/csccm/csccm/installer/engine/exitcodes"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	var b bytes.Buffer
	if err := exitcodes.WriteMarkdown(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644) //nolint:gosec // documentation
}
