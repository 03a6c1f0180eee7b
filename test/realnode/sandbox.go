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
	"os/signal"
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
	r, err := sweepAndRecord(o.Stderr)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, r.clear()) }()
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
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
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM) // process 1 passes it on to the program
		case <-over:
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok {
			return exitCode(status), nil
		}
	}
	return 0, err
}

func sweepAndRecord(log io.Writer) (*record, error) {
	entering.Lock()
	defer entering.Unlock()
	if err := Sweep(log); err != nil {
		return nil, err
	}
	return newRecord()
}

// sandboxInit is process 1 of the sandbox: it sets up the namespaces, runs the program and ends when the program ends.
func sandboxInit() (err error) {
	defer must.Return(&err)
	must.OK(privateMounts())
	reap := newReaper()
	self := must.Get(os.Executable())
	pid, done := must.Get2(reap.start(spec{Path: self, Args: append([]string{self}, os.Args[1:]...), Env: os.Environ(), Stdin: true}))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	for {
		select {
		case status := <-done:
			os.Exit(exitCode(status)) //nolint:gocritic // no error is left for must.Return
		case <-stop:
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// kept are the folders to which programs of a node write files whose path cannot be
// configured. The machine's own folders remain visible in the sandbox below machine.
var kept = []string{"/var/lib", "/var/log"}

const machine = "/run/machine"

// privateMounts sets up mounts that only this mount namespace sees: the /proc of its
// PID namespace, an empty /run, and for each kept folder a tmpfs with links to the
// entries of the machine's folder. Files written there vanish with the namespace.
func privateMounts() error {
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
		if err := os.MkdirAll(original, 0o755); err != nil { // #nosec G301 -- the mode of the folder that is mounted here
			return err
		}
		must.OK((mount{folder, original, "", syscall.MS_BIND | syscall.MS_REC}).do())
		must.OK((mount{"tmpfs", folder, "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV}).do())
		entries := must.Get(os.ReadDir(original))
		for _, e := range entries {
			if err := os.Symlink(filepath.Join(original, e.Name()), filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, folder := range nodeFolders() {
		// With a link to the machine's folder, the node would write its files there.
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(folder, 0o755); err != nil { // #nosec G301 -- as packages make them
			return err
		}
	}
	return nil
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
