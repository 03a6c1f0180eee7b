// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen writes docs/runbooks.md, docs/checks.md and docs/exit-codes.md.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/commands/explain"
	"github.com/csccm/csccm/installer/engine/exitcodes"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(docs string) error {
	pages := map[string]string{"runbooks.md": explain.Page()}
	for name, to := range map[string]func(io.Writer) error{"checks.md": check.WriteMarkdown, "exit-codes.md": exitcodes.WriteMarkdown} {
		var b bytes.Buffer
		if err := to(&b); err != nil {
			return err
		}
		pages[name] = b.String()
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(text), 0o644); err != nil { //nolint:gosec // documentation
			return err
		}
	}
	return nil
}
