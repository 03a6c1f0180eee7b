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
	"github.com/csccm/csccm/test/internal/must"
)

// roleVariable makes this test program the keeper of a sandbox; its value is the path
// of a file that is created when the sandbox is up.
const roleVariable = "CSCCM_TEST_KEEPER"

func TestMain(m *testing.M) {
	Stage()
	up, keeper := os.LookupEnv(roleVariable)
	if !keeper {
		os.Exit(m.Run())
	}
	code := 1
	if err := must.Catch(func() { code = keep(up) }); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// keep starts a sandbox with a node that runs a process, and waits for SIGTERM or SIGINT.
func keep(up string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if _, inside := Inside(); !inside {
		return must.Get(Enter(ctx, os.Stdout, os.Stderr))
	}

	n := bare(ctx)

	// An orphaned process in its own cgroup, like a container.
	script := "(sleep 7777 >/dev/null 2>&1 &) ; nft add table inet csccm-test; touch /var/lib/kubelet/x " +
		"/run/netns/x; hostname"
	for _, h := range allHierarchies() { // like runc, also in hierarchies without controllers
		script = fmt.Sprintf("mkdir -p %[1]s/pod && echo $$ > %[1]s/pod/cgroup.procs; ",
			filepath.Join(h.path, n.cgroup)) + script
	}

	must.OK(n.run(ctx, "/bin/sh", "-c", script))

	// Nothing listens on the port: a refused connection proves that the node is on the network.
	_, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", "10.1.1.21:9")
	must.Be(errors.Is(err, syscall.ECONNREFUSED), "the node is not on the network: %v", err)
	must.OK(os.WriteFile(up, nil, 0o600))
	<-ctx.Done()
	return 7
}

// TestSandbox ends a sandbox by each signal and looks for anything that is left. If its keeper was killed, sweep
// removes the sandbox, but not while the keeper runs.
func TestSandbox(t *testing.T) {
	if err := Check(t.Context(), false); err != nil {
		t.Skip(err)
	}

	t.Setenv("TMPDIR", t.TempDir())
	before := traces(t)
	for end, code := range map[syscall.Signal]int{syscall.SIGTERM: 7, syscall.SIGINT: 7, syscall.SIGKILL: 128 + 9} {
		t.Run(end.String(), func(t *testing.T) {
			keeper := startKeeper(t)
			during := traces(t)
			require.NotEqual(t, before, during)
			require.NoError(t, sweep(t.Context(), os.Stderr))
			require.Equal(t, during, traces(t))
			require.NoError(t, keeper.Signal(end))
			assert.Equal(t, code, keeper.ExitCode(), child.Tail(keeper.Log, 20))
			if end == syscall.SIGKILL {
				require.NoError(t, sweep(t.Context(), os.Stderr))
			}
			assert.Equal(t, before, traces(t))
		})
	}
}

func startKeeper(t *testing.T) *child.Process {
	t.Helper()
	up := filepath.Join(t.TempDir(), "up")
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := child.Start(t.Context(), child.Command{
		Name: "keeper",
		Path: self,
		Env:  append(os.Environ(), roleVariable+"="+up),
		Log:  filepath.Join(t.TempDir(), "log"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(0) })
	require.NoError(t, p.Ready(t.Context(), 3*time.Minute, func(context.Context) error {
		_, err := os.Stat(up)
		return err
	}))
	return p
}

// traces returns what a sandbox could leave behind: what ReadMachine returns, files in the machine's own folders, a
// process and the hostname.
func traces(t *testing.T) []string {
	t.Helper()
	all := slices.DeleteFunc(ReadMachine(t.Context(), nil), func(line string) bool {
		return strings.HasPrefix(line, "mount ") && !strings.Contains(line, os.TempDir()) // mounts of other programs
	})
	for _, h := range allHierarchies() {
		all = append(all, glob(filepath.Join(h.path, folderPrefix+"*", "*", "pod"))...)
	}
	for _, folder := range nodeFolders {
		all = append(all, glob(folder+"/x")...)
	}
	for _, look := range []string{"pgrep -f 'sleep 777[7]'", "hostname"} {
		out, _ := exec.CommandContext(t.Context(), "sh", "-c", look).Output() // pgrep fails when it finds nothing
		all = append(all, look+": "+string(out))
	}
	return all
}
