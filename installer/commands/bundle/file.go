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

func otherFile(flag string) string { return "name a file in a folder that takes it with " + flag }

// NewFile returns, before all the checks, what would keep the file of a flag from being made after them.
func NewFile(flag, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fileExists(flag, path)
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err == nil && !folder.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return report.Remedied(fmt.Errorf("%s: %w", flag, err), otherFile(flag))
	}
	return nil
}

func fileExists(flag, path string) error {
	return report.Usage(fmt.Sprintf("%s %s exists already; it is not overwritten", flag, path), "name another file with "+flag)
}

// WriteNew makes a file that nobody else reads; it is whole or not there, and replaces none.
func WriteNew(flag, path string, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // #nosec G304 -- the user names it
	if errors.Is(err, os.ErrExist) {
		return fileExists(flag, path)
	}
	if err != nil {
		return report.Remedied(fmt.Errorf("%s: %w", flag, err), otherFile(flag))
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = os.Remove(path)
			err = report.Remedied(fmt.Errorf("%s %s: %w; nothing is left of it", flag, path, err), otherFile(flag))
		}
	}()
	return write(file)
}
