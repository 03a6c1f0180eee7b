// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Programs that were used lately are kept; the others are removed.
func TestUseBuild(t *testing.T) {
	t.Parallel()
	cache, now := t.TempDir(), time.Now()
	for name, at := range map[string]time.Time{"old": now.Add(-2 * buildLifetime), "used": now.Add(-time.Hour), "again": now.Add(-2 * buildLifetime)} {
		if err := useBuild(filepath.Join(cache, name), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := useBuild(filepath.Join(cache, "again"), now); err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string]bool{"old": false, "used": true, "again": true} {
		if _, err := os.Stat(filepath.Join(cache, name)); (err == nil) != kept {
			t.Errorf("%s: %v, kept: %t", name, err, kept)
		}
	}
}
