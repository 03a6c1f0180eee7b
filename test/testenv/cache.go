// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// buildLifetime is after how long without a use the programs of a checkout are removed from the cache; no run takes as long. A
// build takes a quarter of a gigabyte.
const buildLifetime = 24 * time.Hour

// useBuild creates the folder of a checkout's programs, and removes those that nobody has used for a while.
func useBuild(dir string, now time.Time) (err error) {
	defer must.Return(&err)
	must.OK(os.MkdirAll(dir, 0o750))
	must.OK(os.Chtimes(dir, now, now))
	entries := must.Get(os.ReadDir(filepath.Dir(dir)))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || now.Sub(info.ModTime()) < buildLifetime {
			continue
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(dir), e.Name())); err != nil {
			return fmt.Errorf("remove the programs of an older build: %w", err)
		}
	}
	return nil
}
