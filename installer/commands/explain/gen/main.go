// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen writes docs/runbooks.md and docs/checks.md.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/explain"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(docs string) error {
	var checks bytes.Buffer
	if err := check.WriteMarkdown(&checks); err != nil {
		return err
	}
	pages := map[string]string{"runbooks.md": explain.Page(), "checks.md": checks.String()}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(text), 0o644); err != nil { //nolint:gosec // documentation
			return err
		}
	}
	return nil
}
