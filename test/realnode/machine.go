// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/child"
	"github.com/csccm/csccm/test/internal/must"
)

// upFile is a file in the node's folder that exists when the namespaces of the node are set up.
const upFile = "up"

// nodeInit is a node's process 1. It starts nothing: nsenter starts the node's programs.
func nodeInit(dir, hostname string) {
	must.OK(syscall.Sethostname([]byte(hostname)))
	nodeMounts(dir)
	signal.Ignore(syscall.SIGCHLD) // so the kernel reaps processes whose parents have ended
	must.OK(os.WriteFile(filepath.Join(dir, upFile), nil, 0o600))
	for {
		time.Sleep(time.Hour)
	}
}

// sysctls are settings that a kubelet requires and would set for the whole machine. In
// the node's mount namespace the files hold these values, so the kubelet writes nothing.
var sysctls = map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}

func nodeMounts(dir string) {
	mounts := []mount{
		{"", "/", "", syscall.MS_PRIVATE | syscall.MS_REC},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
	}
	for _, folder := range nodeFolders() {
		mounts = append(mounts, mount{"tmpfs", folder, "tmpfs", 0})
	}
	for name, value := range sysctls {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		must.OK(os.WriteFile(file, []byte(value+"\n"), 0o600))
		mounts = append(mounts, mount{file, "/proc/sys/" + name, "", syscall.MS_BIND})
	}
	// Containers must see the mounts of Pod volumes, also those that are mounted later.
	mounts = append(mounts, mount{"", "/", "", syscall.MS_SHARED | syscall.MS_REC})
	for _, m := range mounts {
		must.OK(m.do())
	}
}

// nodeMachine is a process 1 with its own PID, mount, network, UTS and IPC namespaces, and the processes in these. When process
// 1 is killed, the kernel ends all of them, as a power failure would.
type nodeMachine struct {
	process *child.Process
	dir     string
}

const machineStart = 2 * time.Minute

// startMachine starts process 1 of a node; dir is the node's folder.
func startMachine(ctx context.Context, name, dir string) (_ *nodeMachine, err error) {
	defer must.Return(&err)
	up := filepath.Join(dir, upFile)
	must.OK(os.RemoveAll(up))
	m := &nodeMachine{dir: dir}
	m.process = must.Get(child.Start(ctx, child.Command{
		Name: name, Path: must.Get(os.Executable()), Argv0: nodeStage, Args: []string{dir, name}, Log: m.log("machine"),
		Attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC},
	}))
	err = m.process.Ready(ctx, machineStart, func(context.Context) error {
		_, err := os.Stat(up)
		return err
	})
	if err != nil {
		m.kill()
	}
	return m, err
}

// kill kills all processes of the node at once.
func (m *nodeMachine) kill() { m.process.Stop(0) }

const nsenter = "/usr/bin/nsenter"

// inside returns the arguments of nsenter that run a program in the namespaces of the node.
func (m *nodeMachine) inside(path string, args []string) []string {
	return append([]string{"-m", "-u", "-i", "-n", "-p", "-t", fmt.Sprint(m.process.PID()), path}, args...)
}

// environment returns the environment of a node's programs.
func (m *nodeMachine) environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + m.dir, "TMPDIR=" + m.dir}
}

// start starts a program and does not wait for its end.
func (m *nodeMachine) start(ctx context.Context, name, path string, args ...string) error {
	_, err := child.Start(ctx, child.Command{Name: name, Path: nsenter, Args: m.inside(path, args), Env: m.environment(), Log: m.log(name)})
	return err
}

// run runs a program and waits for its end; when it fails, the error holds its output.
func (m *nodeMachine) run(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, nsenter, m.inside(path, args)...) // #nosec G204 -- ours
	cmd.Env = m.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, out)
	}
	return nil
}

func (m *nodeMachine) log(name string) string { return filepath.Join(m.dir, "log", name+".log") }
