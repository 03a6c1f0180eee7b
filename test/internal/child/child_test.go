// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shell runs a POSIX shell script as a child.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(t.Context(), Command{Name: "sh", Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Log: filepath.Join(t.TempDir(), "logs", "sh.log")})
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(0) })
	return p
}

func TestExitCodeAndLog(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo one; echo two >&2; exit 7")
	<-p.Done()
	if got := p.ExitCode(); got != 7 {
		t.Errorf("exit code %d, want 7", got)
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "sh ended: exit status 7") {
		t.Errorf("Err() = %v", err)
	}
	if got := Tail(p.Log, 1); got != "  two" {
		t.Errorf("Tail = %q, want the last line alone", got)
	}
}

func TestStopSendsSIGTERMFirst(t *testing.T) {
	t.Parallel()
	p := shell(t, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
	waitForLog(t, p, "ready")
	p.Stop(time.Minute)
	if got := Tail(p.Log, 1); got != "  bye" {
		t.Errorf("last log line %q, want what the TERM handler writes", got)
	}
	if err := p.Err(); err != nil {
		t.Errorf("a stopped process reports %v", err)
	}
}

func TestStopKillsTheGroup(t *testing.T) {
	t.Parallel()
	p := shell(t, "trap '' TERM; sleep 600 & echo $!; wait; while :; do sleep 0.05; done")
	waitForLog(t, p, "\n")
	p.Stop(50 * time.Millisecond)
	if got := p.ExitCode(); got != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d, want 137", got)
	}
	// The child's own child is in the same group.
	require.Eventually(t, func() bool { return syscall.Kill(-p.PID(), 0) != nil }, time.Minute, 5*time.Millisecond, "a process of the group is still there")
}

func TestHostname(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root on Linux")
	}
	before, err := os.Hostname()
	require.NoError(t, err)
	p, err := Start(t.Context(), Command{Name: "uname", Path: "/bin/uname", Args: []string{"-n"}, Log: filepath.Join(t.TempDir(), "log"), Hostname: "pod-7"})
	require.NoError(t, err)
	<-p.Done()
	if got := Tail(p.Log, 1); got != "  pod-7" {
		t.Errorf("the child sees the name %q", got)
	}
	if after, err := os.Hostname(); err != nil || after != before {
		t.Errorf("the machine's name became %q, %v", after, err)
	}
}

func waitForLog(t *testing.T, p *Process, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(p.Log)
		return err == nil && strings.Contains(string(b), text)
	}, time.Minute, 5*time.Millisecond, "no %q in the log", text)
}
