// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen writes docs/runbooks, and removes pages of what does not exist any more.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/csccm/csccm/installer/commands/explain"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	pages := explain.Pages()
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documentation
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if _, stays := pages[filepath.Base(file)]; !stays {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // documentation
			return err
		}
	}
	return nil
}
