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
	"sync"
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
	var err error
	switch filepath.Base(os.Args[0]) {
	case initStage:
		err = must.Catch(func() { must.OK(sandboxInit()) })
	case nodeStage:
		err = must.Catch(func() { must.OK(nodeInit(os.Args[1])) })
	default:
		return
	}
	if err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// reaper starts processes and reaps all that end, as process 1 of a PID namespace
// must: also those whose parents have ended. os/exec cannot be used in the same
// process, because the reaper takes the exit status of its children.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
}

func newReaper() *reaper {
	r := &reaper{waiting: map[int]chan syscall.WaitStatus{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			r.collect()
		}
	}()
	return r
}

func (r *reaper) collect() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		r.mu.Lock()
		if done, ok := r.waiting[pid]; ok {
			done <- status
			delete(r.waiting, pid)
		}
		r.mu.Unlock()
	}
}

// spec is a process to start.
type spec struct {
	Path  string   `json:"path"`
	Args  []string `json:"args"` // with argv[0]
	Env   []string `json:"env"`
	Log   string   `json:"log"` // empty: the starter's stdout and stderr
	Stdin bool     `json:"-"`   // the starter's stdin instead of none
}

// start starts a process; done receives its status when it has ended.
func (r *reaper) start(s spec) (pid int, done <-chan syscall.WaitStatus, err error) {
	defer must.Return(&err)
	null := must.Get(os.OpenFile(os.DevNull, os.O_RDWR, 0))
	defer func() { _ = null.Close() }()
	files := []uintptr{null.Fd(), os.Stdout.Fd(), os.Stderr.Fd()}
	if s.Stdin {
		files[0] = os.Stdin.Fd()
	}
	if s.Log != "" {
		log := must.Get(os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
		defer func() { _ = log.Close() }()
		files[1], files[2] = log.Fd(), log.Fd()
	}
	// Locked until the process is in waiting, so that collect does not reap it before.
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err = syscall.ForkExec(s.Path, s.Args, &syscall.ProcAttr{Env: s.Env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}) // #nosec G204 -- ours
	if err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", s.Path, err)
	}
	ch := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = ch
	return pid, ch, nil
}

// exitCode returns the exit code that a shell would report.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
