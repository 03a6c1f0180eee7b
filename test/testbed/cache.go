// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// keptBuilds is how many checkouts' programs stay beside those in use, a quarter of a gigabyte each.
	keptBuilds = 3
	// lockless is how old a folder without a lock must be to go: a build from before there were locks made it, and
	// may be at work.
	lockless = 24 * time.Hour

	lockSuffix = ".lock"
)

// folderInUse makes a folder of the cache and keeps it from being removed as long as this process lives. What the
// kernel holds for a process ends with it, however it ends.
func folderInUse(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	lock, err := lockFile(dir, syscall.LOCK_SH)
	if err != nil {
		return err
	}
	locks.Lock()
	locks.held = append(locks.held, lock) // closed, or collected as garbage, the lock would end
	locks.Unlock()
	// Whoever removes folders may have done so before the lock was ours.
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.Chtimes(dir, now, now)
}

// locks are held until the process ends.
var locks struct {
	sync.Mutex
	held []*os.File
}

// lockFile locks the file beside a folder. It is never removed: two processes then lock the same one.
func lockFile(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(dir+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// removeOldBuilds leaves the folders that were used last, and those in use.
func removeOldBuilds(cache string, now time.Time) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	type folder struct {
		path string
		used time.Time
	}
	var folders []folder
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() {
			folders = append(folders, folder{filepath.Join(cache, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(folders, func(a, b folder) int { return b.used.Compare(a.used) })
	for _, f := range folders[min(keptBuilds, len(folders)):] {
		if _, err := os.Stat(f.path + lockSuffix); errors.Is(err, fs.ErrNotExist) && now.Sub(f.used) < lockless {
			continue
		}
		lock, err := lockFile(f.path, syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue // in use
		}
		if err != nil {
			return err
		}
		err = os.RemoveAll(f.path)
		_ = lock.Close()
		if err != nil {
			return fmt.Errorf("remove the programs of an older build: %w", err)
		}
	}
	return nil
}
