// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// Tail returns the last n lines of a log, each indented by two spaces; empty when
// the log cannot be read.
func Tail(path string, n int) string {
	const window = 64 << 10
	f, err := os.Open(path) // #nosec G304 -- a log of the harness
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		if _, err := f.Seek(max(0, end-window), io.SeekStart); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(bytes.TrimRight(b, "\n")), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "  " + strings.Join(lines, "\n  ")
}
