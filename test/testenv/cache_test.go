// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// The folders that were used last are kept, and older ones that are in use; the others are removed.
func TestRemoveOldBuilds(t *testing.T) {
	t.Parallel()
	cache, now := t.TempDir(), time.Now()
	add := func(name string, age time.Duration, locked bool) string {
		dir := filepath.Join(cache, name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "csccm"), []byte("program"), 0o600); err != nil {
			t.Fatal(err)
		}
		if locked {
			f, err := lockFile(dir, syscall.LOCK_SH)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close() // the process that used it has ended
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	add("newest", time.Minute, true)
	add("second", 2*time.Minute, true)
	add("third", 3*time.Minute, true)
	add("fourth", 4*time.Minute, true)
	add("recent-without-lock", time.Hour, false)
	add("old-without-lock", 2*minAgeWithoutLock, false)
	used := add("used", 48*time.Hour, true)
	lock, err := lockFile(used, syscall.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	if err := removeOldBuilds(cache, now); err != nil {
		t.Fatal(err)
	}
	left := func() []string {
		found, err := filepath.Glob(filepath.Join(cache, "*", "csccm"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i] = filepath.Base(filepath.Dir(found[i]))
		}
		slices.Sort(found)
		return found
	}
	if got, want := left(), []string{"newest", "recent-without-lock", "second", "third", "used"}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	_ = lock.Close()
	if err := removeOldBuilds(cache, now); err != nil {
		t.Fatal(err)
	}
	if got := left(); slices.Contains(got, "used") {
		t.Errorf("kept %v: the folder used is no longer in use", got)
	}
	// A folder that is used again counts as the last used.
	if err := folderInUse(filepath.Join(cache, "fourth"), now); err != nil {
		t.Fatal(err)
	}
	add("newer", 0, true)
	add("newer-too", 0, true)
	add("newer-still", 0, true)
	if err := removeOldBuilds(cache, now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cache, "fourth")); err != nil {
		t.Error(err)
	}
}
