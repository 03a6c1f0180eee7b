// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Programs that were used lately are kept; the others are removed.
func TestUseBuild(t *testing.T) {
	t.Parallel()
	cache, now := t.TempDir(), time.Now()
	for name, at := range map[string]time.Time{"old": now.Add(-2 * buildLifetime), "used": now.Add(-time.Hour), "again": now.Add(-2 * buildLifetime)} {
		require.NoError(t, useBuild(filepath.Join(cache, name), at))
	}
	require.NoError(t, useBuild(filepath.Join(cache, "again"), now))
	for name, kept := range map[string]bool{"old": false, "used": true, "again": true} {
		if _, err := os.Stat(filepath.Join(cache, name)); (err == nil) != kept {
			t.Errorf("%s: %v, kept: %t", name, err, kept)
		}
	}
}
