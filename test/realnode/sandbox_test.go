// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/test/internal/child"
)

// roleVariable makes this test program the keeper of a sandbox; its value is the path
// of a file that is created when the sandbox is up.
const roleVariable = "CSCCM_TEST_KEEPER"

func TestMain(m *testing.M) {
	Stage()
	if up, keeper := os.LookupEnv(roleVariable); keeper {
		os.Exit(keep(up))
	}
	os.Exit(m.Run())
}

// keep starts a sandbox with a node that runs a process, and waits for SIGTERM or SIGINT.
func keep(up string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if _, inside := Inside(); !inside {
		code, err := Enter(ctx, Sandbox{Stdout: os.Stdout, Stderr: os.Stderr})
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}
	if err := populate(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.WriteFile(up, nil, 0o600); err != nil {
		return 1
	}
	<-ctx.Done()
	return 7
}

// populate creates one object of each kind that could be left behind.
func populate(ctx context.Context) error {
	n, err := bare(ctx)
	if err != nil {
		return err
	}
	// An orphaned process in its own cgroup, like a container.
	script := "(sleep 7777 >/dev/null 2>&1 &) ; nft add table inet csccm-test; touch /var/lib/kubelet/x /run/netns/x; hostname"
	for _, h := range allHierarchies() { // like runc, also in hierarchies without controllers
		script = fmt.Sprintf("mkdir -p %[1]s/pod && echo $$ > %[1]s/pod/cgroup.procs; ", filepath.Join(h.path, n.cgroup)) + script
	}
	if err := n.machine.run(ctx, "/bin/sh", "-c", script); err != nil {
		return err
	}
	// Nothing listens on the port: a refused connection proves that the node is on the network.
	if _, err = (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", "10.1.1.21:9"); errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return fmt.Errorf("the node is not on the network: %w", err)
}

// TestSandboxLeavesNothingBehind ends a sandbox by each signal and looks for what is left of it.
func TestSandboxLeavesNothingBehind(t *testing.T) {
	if err := Check(t.Context(), false); err != nil {
		t.Skip(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	before := traces(t)
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int
		sweep  bool
	}{
		{"SIGTERM", syscall.SIGTERM, 7, false},
		{"SIGINT", syscall.SIGINT, 7, false},
		{"SIGKILL of the keeper", syscall.SIGKILL, 128 + int(syscall.SIGKILL), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			keeper := startKeeper(t)
			if during := traces(t); slices.Equal(during, before) {
				t.Error("a running sandbox changes nothing that this test looks at")
			}
			require.NoError(t, keeper.Signal(c.signal))
			assert.Equal(t, c.code, keeper.ExitCode(), child.Tail(keeper.Log, 20))
			if c.sweep {
				var said strings.Builder
				if err := Sweep(&said); err != nil || !strings.Contains(said.String(), "an earlier run left behind") {
					t.Errorf("sweep: %v, %q", err, said.String())
				}
			}
			if after := traces(t); !slices.Equal(after, before) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		})
	}
}

func TestSweepKeepsRunningSandboxes(t *testing.T) {
	if err := Check(t.Context(), false); err != nil {
		t.Skip(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	keeper := startKeeper(t)
	during := traces(t)
	require.NoError(t, Sweep(os.Stderr))
	if now := traces(t); !slices.Equal(now, during) {
		t.Errorf("before the sweep:\n%s\nafter:\n%s", strings.Join(during, "\n"), strings.Join(now, "\n"))
	}
	keeper.Stop(stopGrace)
}

func startKeeper(t *testing.T) *child.Process {
	t.Helper()
	up := filepath.Join(t.TempDir(), "up")
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := child.Start(t.Context(), child.Command{
		Name: "keeper", Path: self, Env: append(os.Environ(), roleVariable+"="+up), Log: filepath.Join(t.TempDir(), "log"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(0) })
	require.NoError(t, p.Ready(t.Context(), 3*time.Minute, func(context.Context) error {
		_, err := os.Stat(up)
		return err
	}))
	return p
}

// traces returns what a sandbox could leave behind: what Look returns, files in the machine's own folders, a process
// and the hostname.
func traces(t *testing.T) []string {
	t.Helper()
	all := slices.DeleteFunc([]string(ReadMachine(t.Context())), func(line string) bool {
		return strings.HasPrefix(line, "mount ") && !strings.Contains(line, os.TempDir()) // mounts of other programs
	})
	for _, h := range allHierarchies() {
		found, err := filepath.Glob(filepath.Join(h.path, folderPrefix+"*", "*", "pod"))
		require.NoError(t, err)
		all = append(all, found...)
	}
	for _, folder := range nodeFolders() {
		if _, err := os.Stat(filepath.Join(folder, "x")); err == nil {
			all = append(all, folder+"/x")
		}
	}
	for _, look := range []string{"pgrep -f 'sleep 777[7]'", "hostname"} {
		out, _ := exec.CommandContext(t.Context(), "sh", "-c", look).Output() // pgrep fails when it finds nothing
		all = append(all, look+": "+string(out))
	}
	return all
}
