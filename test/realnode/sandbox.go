// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/csccm/csccm/test/internal/must"
)

// dirVariable is the environment variable that holds the sandbox's folder.
const dirVariable = "CSCCM_SANDBOX"

// Inside returns the folder of the sandbox that this process runs in, if any.
func Inside() (dir string, inside bool) { return os.LookupEnv(dirVariable) }

// Sandbox is what a program in a sandbox writes to, and what is added to its environment.
type Sandbox struct {
	Env            []string
	Stdout, Stderr io.Writer
}

// entering is held until a new sandbox is recorded: Sweep would remove a folder that has no lock file yet.
var entering sync.Mutex

// Enter runs this program again, with the same arguments, in a sandbox: its own PID,
// mount and network namespaces. Several sandboxes can run at the same time. However the program ends, the kernel ends all
// processes of the sandbox and removes its mounts, links, addresses and nftables
// rules. Cgroups and the folder belong to no namespace: they are recorded before they
// are created, and Enter removes them. This process is the keeper of the sandbox; when
// it is killed, the next Enter removes what remains. Enter returns the program's exit
// code.
func Enter(ctx context.Context, o Sandbox) (code int, err error) {
	defer must.Return(&err)
	r := must.Get(newRecord(o.Stderr))
	defer func() { err = errors.Join(err, r.clear()) }()
	self := must.Get(os.Executable())
	// The kernel sends the parent-death signal when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self, os.Args[1:]...) //nolint:noctx // SIGTERM below ends it, so that it can clean up
	cmd.Args[0] = initStage
	cmd.Env = append(append(os.Environ(), o.Env...), dirVariable+"="+r.Dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, o.Stdout, o.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL, Setpgid: true,
	}
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

// kept are the folders to which programs of a node write files whose path cannot be
// configured. The machine's own folders remain visible in the sandbox below machine.
var kept = []string{"/var/lib", "/var/log"}

const machine = "/run/machine"

// privateMounts sets up mounts that only this mount namespace sees: the /proc of its
// PID namespace, an empty /run, and for each kept folder a tmpfs with links to the
// entries of the machine's folder. Files written there vanish with the namespace.
func privateMounts() {
	mounts := []mount{
		{"", "/", "", syscall.MS_PRIVATE | syscall.MS_REC},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
		{"tmpfs", "/run", "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV},
	}
	for _, m := range mounts {
		must.OK(m.do())
	}
	for _, folder := range kept {
		original := machine + folder
		must.OK(os.MkdirAll(original, 0o755)) // #nosec G301 -- the mode of the folder that is mounted here
		must.OK((mount{folder, original, "", syscall.MS_BIND | syscall.MS_REC}).do())
		must.OK((mount{"tmpfs", folder, "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV}).do())
		for _, e := range must.Get(os.ReadDir(original)) {
			must.OK(os.Symlink(filepath.Join(original, e.Name()), filepath.Join(folder, e.Name())))
		}
	}
	for _, folder := range nodeFolders() {
		// With a link to the machine's folder, the node would write its files there.
		if err := os.Remove(folder); !errors.Is(err, fs.ErrNotExist) {
			must.OK(err)
		}
		must.OK(os.MkdirAll(folder, 0o755)) // #nosec G301 -- as packages make them
	}
}

// nodeFolders returns the folders of which each node has its own.
func nodeFolders() []string {
	return []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/netns"}
}

type mount struct {
	source, target, fs string
	flags              uintptr
}

func (m mount) do() error {
	if err := syscall.Mount(m.source, m.target, m.fs, m.flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", m.target, err)
	}
	return nil
}

// tmp returns the folder that holds the sandboxes' folders.
func tmp() string { return filepath.Clean(os.TempDir()) }
