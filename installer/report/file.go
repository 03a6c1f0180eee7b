// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Encode writes v to w as "json" or "yaml". Both use the names in v's json tags.
func Encode(w io.Writer, format string, v any) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		body, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		if terminal.Plain(string(body)) != string(body) {
			return Encode(w, "json", v) // JSON is also valid YAML, and escapes every special character
		}
		_, err = w.Write(body)
		return err
	}

	return fmt.Errorf("format %q is not json or yaml", format)
}

// IsNew returns an error, before any work is done, if WriteNew would fail: because the file exists, or because its
// folder does not. "" and "-" are not files.
func IsNew(flag, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return Usage("name another file with "+flag, "%s %s exists already; it is not overwritten", flag, path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return Usage("name a file in a writable folder with "+flag, "%s: %v", flag, err)
	}
	return nil
}

// WriteNew creates a file that only its owner can read. It never leaves an incomplete file and never overwrites one.
// flag is the flag that names the file.
func WriteNew(flag, path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // #nosec G304 -- the user names it
	if err == nil {
		if err = errors.Join(write(file), file.Close()); err != nil {
			err = fmt.Errorf("%w; the incomplete file was removed", err)
			_ = os.Remove(path)
		}
	}
	if err != nil {
		return Errorf("name a file in a writable folder with "+flag, "%s %s: %w", flag, path, err)
	}
	return nil
}
