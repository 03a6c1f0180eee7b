// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// WriteNew makes a file that nobody else reads; it is whole or not there, and replaces none. flag is what names it.
func WriteNew(flag, path string, write func(io.Writer) error) error {
	fix := "name a file in a folder that takes it with " + flag
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // #nosec G304 -- the user names it
	if errors.Is(err, os.ErrExist) {
		return Usage(fmt.Sprintf("%s %s exists already; it is not overwritten", flag, path), "name another file with "+flag)
	}
	if err != nil {
		return Remedied(fmt.Errorf("%s: %w", flag, err), fix)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		_ = os.Remove(path)
		return Remedied(fmt.Errorf("%s %s: %w; nothing is left of it", flag, path, err), fix)
	}
	return nil
}
