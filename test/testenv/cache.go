// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

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
	// keptBuilds is for how many checkouts programs are kept, in addition to those in use; a build takes a quarter of a
	// gigabyte.
	keptBuilds = 3
	// minAgeWithoutLock is the minimum age at which a folder without a lock file is removed: an older version of this
	// package, which had no locks, created it and may still be building.
	minAgeWithoutLock = 24 * time.Hour

	lockSuffix = ".lock"
)

// folderInUse creates a folder of the cache and prevents its removal until this process ends: the kernel then releases
// the lock.
func folderInUse(dir string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	lock, err := lockFile(dir, syscall.LOCK_SH)
	if err != nil {
		return err
	}
	locks.Lock()
	locks.held = append(locks.held, lock) // the garbage collector would close the file and so release the lock
	locks.Unlock()
	// Another process may have removed the folder before this one held the lock.
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.Chtimes(dir, now, now)
}

// locks holds the locks until the process ends.
var locks struct {
	sync.Mutex
	held []*os.File
}

// lockFile locks the lock file of a folder, which is next to the folder and is never removed: otherwise two processes
// could lock different files.
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

// removeOldBuilds removes all folders but the keptBuilds that were used last and those in use.
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
		if _, err := os.Stat(f.path + lockSuffix); errors.Is(err, fs.ErrNotExist) && now.Sub(f.used) < minAgeWithoutLock {
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
