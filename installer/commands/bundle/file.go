// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/csccm/csccm/installer/engine/report"
)

const otherFile = "name a file in a folder that takes it with --file"

// NewFile returns, before all the checks, what would keep a file from being made after them.
func NewFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fileExists(path)
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err == nil && !folder.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return report.Remedied(fmt.Errorf("--file: %w", err), otherFile)
	}
	return nil
}

func fileExists(path string) error {
	return report.Usage(fmt.Sprintf("--file %s exists already; it is not overwritten", path), "name another file with --file")
}

// WriteNew makes a file that nobody else reads; it is whole or not there, and replaces none.
func WriteNew(path string, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // #nosec G304 -- the user names it
	if errors.Is(err, os.ErrExist) {
		return fileExists(path)
	}
	if err != nil {
		return report.Remedied(fmt.Errorf("--file: %w", err), otherFile)
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = os.Remove(path)
			err = report.Remedied(fmt.Errorf("--file %s: %w; nothing is left of it", path, err), otherFile)
		}
	}()
	return write(file)
}
