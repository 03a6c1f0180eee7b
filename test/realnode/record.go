// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	folderPrefix = "csccm-sandbox-"
	recordFile   = "keeper.lock"
)

// record is the record of what a sandbox can leave on the machine: its folder, and
// cgroups with the name of that folder. It is written before the sandbox is created.
// The lock on a file in the folder shows whether the sandbox's keeper is alive.
type record struct {
	// Dir is the sandbox's folder; its base name is also the name of its cgroups.
	Dir string
	// file is locked while the sandbox's keeper is alive.
	file *os.File
}

// newRecord sweeps, and records a new sandbox.
func newRecord(log io.Writer) (_ *record, err error) {
	defer must.Return(&err)
	entering.Lock()
	defer entering.Unlock()
	must.OK(Sweep(log))
	dir := must.Get(os.MkdirTemp(tmp(), folderPrefix))
	r := &record{Dir: dir}
	r.file = must.Get(os.OpenFile(filepath.Join(dir, recordFile), os.O_CREATE|os.O_RDWR, 0o600))
	must.OK(syscall.Flock(int(r.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	for _, h := range hierarchies() {
		if err := h.make(r.cgroup()); err != nil {
			return nil, errors.Join(err, r.clear())
		}
	}
	return r, nil
}

func (r *record) cgroup() string { return filepath.Base(r.Dir) }

// clear removes what the sandbox has left; its processes must have ended.
func (r *record) clear() error {
	var all []error
	for _, h := range allHierarchies() {
		all = append(all, h.remove(r.cgroup()))
	}
	all = append(all, os.RemoveAll(r.Dir))
	if r.file != nil {
		all = append(all, r.file.Close())
	}
	return errors.Join(all...)
}

// Sweep removes what is left of sandboxes whose keepers were killed.
func Sweep(log io.Writer) (err error) {
	defer must.Return(&err)
	found := must.Get(filepath.Glob(filepath.Join(tmp(), folderPrefix+"*")))
	var all []error
	for _, dir := range found {
		if r := abandoned(dir); r != nil {
			_, _ = fmt.Fprintf(log, "Removing what an earlier run left behind (%s).\n", dir)
			all = append(all, r.clear())
		}
	}
	return errors.Join(all...)
}

// abandoned returns the record of a folder, nil while its keeper is alive.
func abandoned(dir string) *record {
	r := &record{Dir: dir}
	f, err := os.OpenFile(filepath.Join(dir, recordFile), os.O_RDWR, 0) // #nosec G304 -- ours
	if err != nil {
		// No lock file: nothing but the folder was created yet, or everything but the folder is removed.
		return r
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil
	}
	r.file = f
	return r
}
