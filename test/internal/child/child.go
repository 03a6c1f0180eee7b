// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child runs programs that never outlive this process. Each has its own process group and log file. On Linux,
// the kernel kills it when this process ends, for whatever reason.
package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Command describes a program to run.
type Command struct {
	Name string   // name of the program in messages
	Path string   // the executable
	Args []string // without argv[0]
	// Argv0 is the program's argv[0]; empty means Path.
	Argv0 string
	Env   []string // exactly this environment
	Dir   string
	// Log is the file that stdout and stderr are appended to.
	Log string
	// Attr is the base of the process attributes; may be nil.
	Attr *syscall.SysProcAttr
	// Hostname is the hostname that the program sees, if this process may set it (root on Linux); otherwise it sees
	// the machine's hostname.
	Hostname string
}

// Process is a started command.
type Process struct {
	Name    string
	Log     string
	cmd     *exec.Cmd
	done    chan struct{}
	stopped atomic.Bool
}

// starts returns the channel to the one thread that starts all processes. The kernel sends the parent-death signal
// when the parent *thread* ends, so that thread must live as long as this process.
var starts = sync.OnceValue(func() chan<- func() {
	ch := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range ch {
			f()
		}
	}()
	return ch
})

// Start starts a command and returns at once. The process ends with Stop or with this process, not with the context.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.Name, err)
	}
	defer func() { _ = log.Close() }()
	// #nosec G204 -- the harness runs what it built
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Path, c.Args...)
	cmd.Args[0] = cmp.Or(c.Argv0, c.Path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, append([]string{}, c.Env...), log, log
	cmd.SysProcAttr = cmp.Or(c.Attr, &syscall.SysProcAttr{})
	tie(cmd.SysProcAttr)

	p := &Process{Name: c.Name, Log: c.Log, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	if c.Hostname == "" || !startNamed(c.Hostname, cmd.Start, started, p.done) {
		starts() <- func() { started <- cmd.Start() }
	}
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		_ = cmd.Wait()
		// Also end the processes that the program itself has started.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		close(p.done)
	}()
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed once the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode waits for the end of the process and returns its exit code, or 128+n if signal n ended it.
func (p *Process) ExitCode() int {
	<-p.done
	state := p.cmd.ProcessState
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// Err returns an error with the end of the log if the process ended without Stop; otherwise nil.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.stopped.Load() {
		return nil
	}
	return fmt.Errorf("%s ended: %s; its log ends with:\n%s", p.Name, p.cmd.ProcessState, Tail(p.Log, 15))
}

// Ready waits until try succeeds. It fails if the process ends, or after limit.
func (p *Process) Ready(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, p.Err()
	})
	if wait.Interrupted(err) {
		err = fmt.Errorf("%s is not ready: %w; its log ends with:\n%s", p.Name, errors.Join(last, err), Tail(p.Log, 15))
	}
	return err
}

// Signal sends a signal to the process, not to its group.
func (p *Process) Signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop sends SIGTERM, waits up to grace, and then kills the process group. With a grace of 0 it kills at once. It
// returns once the process has ended.
func (p *Process) Stop(grace time.Duration) {
	p.stopped.Store(true)
	if grace > 0 {
		_ = p.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return
		case <-time.After(grace):
		}
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	<-p.done
}

// Tail returns the last n lines of a log, each indented by two spaces, or "" if the log cannot be read.
func Tail(path string, n int) string {
	b, err := os.ReadFile(path) // #nosec G304 -- a log of the harness
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}
