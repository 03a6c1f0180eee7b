// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/csccm/csccm/test/internal/must"
)

// The stages are this program started again, with argv[0] as the name of the stage.
const (
	initStage = "csccm-sandbox" // process 1 of the sandbox
	nodeStage = "csccm-node"    // process 1 of a node
)

// Stage runs the stage of a sandbox that this process was started for, and does not
// return then; it returns when the process is not a stage. Programs and tests that use
// this package call Stage first.
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

// sandboxInit is process 1 of the sandbox: it sets up the namespaces, runs the program and ends when the program ends. Like
// every process 1 of a PID namespace it also reaps processes whose parents have ended.
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
