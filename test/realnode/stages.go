// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/must"
)

// The stages are this program, started again with the name of the stage as argv[0].
const (
	initStage = "csccm-sandbox" // process 1 of the sandbox
	nodeStage = "csccm-node"    // process 1 of a node
)

// Stage runs the stage of a sandbox that this process was started for and does not return. If this process is not a
// stage, it returns at once. Programs and tests that use this package call Stage first.
func Stage() {
	stages := map[string]func(){initStage: sandboxInit, nodeStage: func() { nodeInit(os.Args[1], os.Args[2]) }}
	stage, ok := stages[filepath.Base(os.Args[0])]
	if !ok {
		return
	}
	if err := must.Catch(stage); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	}
	os.Exit(1)
}

// sandboxInit is process 1 of the sandbox. It sets up the namespaces, runs the program and ends with it. Like every
// process 1 of a PID namespace it also reaps processes whose parents have ended.
func sandboxInit() {
	privateMounts()
	self := must.Get(os.Executable())
	program := must.Get(os.StartProcess(self, append([]string{self}, os.Args[1:]...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true},
	}))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for range stop {
			_ = program.Signal(syscall.SIGTERM)
		}
	}()

	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case pid == program.Pid:
			os.Exit(exitCode(status))
		case !errors.Is(err, syscall.EINTR):
			must.OK(err)
		}
	}
}

// exitCode returns the exit code that a shell would report.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// machine is the folder where the machine's own folders remain visible in the sandbox.
const machine = "/run/machine"

// nodeFolders are folders of which each node has its own.
var nodeFolders = []string{
	"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/run/containerd", "/run/netns",
}

// privateMounts sets up mounts that only this mount namespace sees: the /proc of its PID namespace and an empty /run.
// Programs of a node also write to folders whose paths cannot be configured. Each of these becomes a tmpfs with links
// to the entries of the machine's folder; files written there vanish with the namespace.
func privateMounts() {
	mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC)
	mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC)
	mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV)
	for _, folder := range []string{"/var/lib", "/var/log"} {
		original := machine + folder
		must.OK(os.MkdirAll(original, 0o755)) // #nosec G301 -- the mode of the folder that is mounted here
		mount(folder, original, "", syscall.MS_BIND|syscall.MS_REC)
		mount("tmpfs", folder, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV)
		for _, e := range must.Get(os.ReadDir(original)) {
			must.OK(os.Symlink(filepath.Join(original, e.Name()), filepath.Join(folder, e.Name())))
		}
	}

	for _, folder := range nodeFolders {
		// Through a link to the machine's folder, the node would write its files there.
		if err := os.Remove(folder); !errors.Is(err, fs.ErrNotExist) {
			must.OK(err)
		}
		must.OK(os.MkdirAll(folder, 0o755)) // #nosec G301 -- as packages make them
	}
}

// upFile is a file in the node's folder that exists when the namespaces of the node are set up.
const upFile = "up"

// nodeInit is a node's process 1. It starts nothing: nsenter starts the node's programs.
func nodeInit(dir, hostname string) {
	must.OK(syscall.Sethostname([]byte(hostname)))
	mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC)
	mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC)
	for _, folder := range nodeFolders {
		mount("tmpfs", folder, "tmpfs", 0)
	}

	// A kubelet requires these settings and would set them for the whole machine. Here the files already have these
	// values, so it writes nothing.
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1",
		"kernel/panic":         "10",
		"kernel/panic_on_oops": "1",
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		must.OK(os.WriteFile(file, []byte(value+"\n"), 0o600))
		mount(file, "/proc/sys/"+name, "", syscall.MS_BIND)
	}

	// Containers must see the mounts of Pod volumes, even those that are mounted later.
	mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC)
	signal.Ignore(syscall.SIGCHLD) // so the kernel reaps processes whose parents have ended
	must.OK(os.WriteFile(filepath.Join(dir, upFile), nil, 0o600))
	for {
		time.Sleep(time.Hour)
	}
}

func mount(source, target, fs string, flags uintptr) {
	err := syscall.Mount(source, target, fs, flags, "")
	must.Be(err == nil, "mount %s: %v", target, err)
}
