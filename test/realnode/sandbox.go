// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	// dirVariable is the environment variable with the sandbox's folder.
	dirVariable  = "CSCCM_SANDBOX"
	folderPrefix = "csccm-sandbox-"
	lockFile     = "keeper.lock"
	namespaces   = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
)

// Inside returns the folder of the sandbox that this process runs in, if any.
func Inside() (dir string, inside bool) { return os.LookupEnv(dirVariable) }

// entering is held until a new sandbox is recorded. Until then its folder has no lock file, so sweep would remove it.
var entering sync.Mutex

// Enter runs this program again in a sandbox: its own PID, mount and network namespaces. The arguments are the same,
// env is added to the environment. Several sandboxes can run at the same time. It returns the program's exit code.
//
// However the program ends, the kernel ends all processes of the sandbox and removes its mounts, links, addresses and
// nftables rules. Cgroups and the folder belong to no namespace, so they are recorded before they are created, and
// Enter removes them. This process is the keeper of the sandbox. If it is killed, the next Enter removes what remains.
func Enter(ctx context.Context, stdout, stderr io.Writer, env ...string) (code int, err error) {
	defer must.Return(&err)
	r := newRecord(ctx, stderr)
	defer func() { err = errors.Join(err, r.clear(ctx)) }()
	for _, h := range hierarchies() {
		h.make(filepath.Base(r.dir))
	}

	// The kernel sends the parent-death signal when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self := must.Get(os.Executable())
	cmd := exec.Command(self, os.Args[1:]...) //nolint:noctx // SIGTERM below ends it, so that it can clean up
	cmd.Args[0] = initStage
	cmd.Env = append(append(os.Environ(), env...), dirVariable+"="+r.dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("create namespaces (needs root, on a machine that allows namespaces): %w", err)
	}

	// Process 1 passes the signal on to the program.
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exitCode(exit.Sys().(syscall.WaitStatus)), nil //nolint:forcetypeassert // what exec gives on Linux
	}

	return 0, err
}

// record records what a sandbox can leave on the machine: its folder, and cgroups with the name of that folder. It is
// written before the sandbox is created. The lock on a file in the folder shows whether the sandbox's keeper is alive.
type record struct {
	dir  string
	file *os.File
}

// newRecord sweeps, then records a new sandbox.
func newRecord(ctx context.Context, log io.Writer) *record {
	entering.Lock()
	defer entering.Unlock()
	must.OK(sweep(ctx, log))
	r := &record{dir: must.Get(os.MkdirTemp(tmp(), folderPrefix))}
	must.Be(r.lock(os.O_CREATE), "the new folder %s has a keeper", r.dir)
	return r
}

// lock reports whether the folder's keeper has ended. If so, it takes the keeper's lock.
func (r *record) lock(flag int) bool {
	f, err := os.OpenFile(filepath.Join(r.dir, lockFile), os.O_RDWR|flag, 0o600)
	if err != nil {
		return flag == 0 // no lock file: the folder is new, or its sandbox is already removed
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil { // #nosec G115 -- a file descriptor
		_ = f.Close()
		return false
	}
	r.file = f
	return true
}

// clear removes what the sandbox has left. Its processes must have ended.
func (r *record) clear(ctx context.Context) error {
	var all []error
	for _, h := range allHierarchies() {
		all = append(all, h.remove(context.WithoutCancel(ctx), filepath.Base(r.dir)))
	}
	all = append(all, os.RemoveAll(r.dir))
	if r.file != nil {
		all = append(all, r.file.Close())
	}
	return errors.Join(all...)
}

// sweep removes what sandboxes have left whose keepers were killed.
func sweep(ctx context.Context, log io.Writer) error {
	found, err := filepath.Glob(filepath.Join(tmp(), folderPrefix+"*"))
	for _, dir := range found {
		if r := (&record{dir: dir}); r.lock(0) {
			_, _ = fmt.Fprintf(log, "Removing what an earlier run left behind (%s).\n", dir)
			err = errors.Join(err, r.clear(ctx))
		}
	}
	return err
}

// tmp returns the folder that holds the sandboxes' folders.
func tmp() string { return filepath.Clean(os.TempDir()) }
