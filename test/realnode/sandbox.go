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
	"syscall"
)

// dirVariable names the sandbox's folder to the program inside.
const dirVariable = "CSCCM_SANDBOX"

// Inside is the folder of the sandbox that this process runs in.
func Inside() (dir string, inside bool) { return os.LookupEnv(dirVariable) }

// Enter runs this program once more, with the same arguments, in a sandbox: PID,
// mount and network namespaces of its own. Whatever way it ends, the kernel ends all
// its processes with it and drops its mounts, links, addresses and nftables; the
// cgroups and the folder, which are no namespace's, are recorded before they are made
// and removed here. A sandbox whose keeper was killed is cleaned up by the next one.
// It returns the program's exit code.
func Enter(ctx context.Context, log io.Writer) (code int, err error) {
	if err := Sweep(log); err != nil {
		return 1, err
	}
	r, err := newRecord()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, r.clear()) }()
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	// The parent-death signal is about this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(self, os.Args[1:]...) //nolint:noctx // it ends by a signal, tidily
	cmd.Args[0] = initStage
	cmd.Env = append(os.Environ(), dirVariable+"="+r.Dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL, Setpgid: true,
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("make namespaces (root is needed, and a machine that lets it make them): %w", err)
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-ctx.Done():
			_ = cmd.Process.Signal(syscall.SIGTERM) // passed on by process 1
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

// sandboxInit is process 1: it sets the namespaces up, runs the program and ends with it.
func sandboxInit() error {
	if err := privateMounts(); err != nil {
		return err
	}
	reap := newReaper()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	pid, done, err := reap.start(spec{Path: self, Args: append([]string{self}, os.Args[1:]...), Env: os.Environ(), Stdin: true})
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	for {
		select {
		case status := <-done:
			os.Exit(exitCode(status))
		case <-stop:
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// kept are the folders in which programs of a node keep what cannot be told to be
// elsewhere, and machine is where the machine's own stay visible in the sandbox.
var kept = []string{"/var/lib", "/var/log"}

const machine = "/run/machine"

// privateMounts gives the process mounts that nobody else sees: the /proc of its PID
// namespace, an empty /run, and in place of kept folders such that hold links to the
// machine's. What is written there is gone with the namespace.
func privateMounts() error {
	mounts := []mount{
		{"", "/", "", syscall.MS_PRIVATE | syscall.MS_REC},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
		{"tmpfs", "/run", "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV},
	}
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	for _, folder := range kept {
		original := machine + folder
		if err := os.MkdirAll(original, 0o755); err != nil { // #nosec G301 -- as the one it stands for
			return err
		}
		if err := (mount{folder, original, "", syscall.MS_BIND | syscall.MS_REC}).do(); err != nil {
			return err
		}
		if err := (mount{"tmpfs", folder, "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV}).do(); err != nil {
			return err
		}
		entries, err := os.ReadDir(original)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.Symlink(filepath.Join(original, e.Name()), filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, folder := range nodeFolders() {
		// A link to the machine's would lead the node's files there.
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(folder, 0o755); err != nil { // #nosec G301 -- as packages make them
			return err
		}
	}
	return nil
}

// nodeFolders are those that each node has of its own.
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

// tmp is the folder that holds the sandboxes' folders.
func tmp() string { return filepath.Clean(os.TempDir()) }
