// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
)

// asCommand makes the test binary run the command.
const asCommand = "CLOUDSTACK_SIM_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// started is inserted after every line that starts a server. A script must wait for the server, while a reader types
// slowly enough.
const started = `
for i in $(seq 1200); do curl -fsS %s >/dev/null 2>&1 && break; sleep 0.05; done
`

// loopback returns a random loopback address on which no other process listens, so that ports that are free now stay
// free. Systems other than Linux may only have 127.0.0.1.
func loopback() string {
	a := net.IPv4(127, byte(128+rand.IntN(127)), byte(rand.IntN(256)), byte(1+rand.IntN(254))).String()
	l, err := net.Listen("tcp", a+":0")
	if err != nil {
		return "127.0.0.1"
	}
	_ = l.Close()
	return a
}

// runShell runs commands from a text in one shell, on free ports. before is a command that starts the shell.
func runShell(t *testing.T, script string, before ...string) string {
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}

	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q --listen 127.0.0.1:8080 \"$@\"\n", asCommand, self)
	host := loopback()
	var taken []net.Listener // kept open until all ports are chosen, so that they differ
	for _, port := range []string{"8080", "8096", "8097", "8098", "8099", "8100"} {
		l, err := net.Listen("tcp", host+":0")
		require.NoError(t, err)
		taken = append(taken, l)
		free := l.Addr().String()
		script = strings.ReplaceAll(script, "127.0.0.1:"+port, free)
		wrapper = strings.ReplaceAll(wrapper, "127.0.0.1:"+port, free)
	}

	for _, l := range taken {
		require.NoError(t, l.Close())
	}

	// A process that another test starts meanwhile would inherit the open file, and Linux does not execute a file that
	// is open for writing.
	syscall.ForkLock.RLock()
	err = os.WriteFile(filepath.Join(dir, "cloudstack-sim"), []byte(wrapper), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	address := regexp.MustCompile(`--integration-listen (\S+)`)
	lines := strings.Split(script, "\n")
	url := ""
	for i, line := range lines {
		if m := address.FindStringSubmatch(line); m != nil {
			url = fmt.Sprintf("'http://%s/client/api?command=listZones&response=json'", m[1])
		}
		if strings.HasSuffix(line, " &") {
			lines[i] = line + fmt.Sprintf(started, url)
		}
	}

	script = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + strings.Join(lines, "\n")
	args := append(before, "bash", "-c", script)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestTutorialRuns runs the commands of --help: the lines with a deeper indentation than the text.
func TestTutorialRuns(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	for line := range strings.Lines(tutorial) {
		if command, ok := strings.CutPrefix(line, "       "); ok {
			script.WriteString(command)
		}
	}
	require.Contains(t, script.String(), "cloudstack-sim ")
	out := runShell(t, script.String())
	for _, want := range []string{`"name":"Sandbox-simulator"`, `"secretkey":"`,
		`"fault":"createLoadBalancerRule:job-fails:nth=3"`, `"calls":[`} {
		require.Contains(t, out, want)
	}
}

// TestPageRuns runs the code blocks of docs/contributing/simulator.md that are marked sh or python.
func TestPageRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "contributing", "simulator.md"))
	require.NoError(t, err)
	_, noPython := exec.LookPath("python3")
	var script strings.Builder
	for _, m := range regexp.MustCompile("(?s)\n```(sh|python)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		switch {
		case m[1] == "sh":
			script.WriteString(m[2])
		case noPython == nil:
			script.WriteString("python3 - <<'PYTHON' | grep '^zone-1$'\n" + m[2] + "PYTHON\n")
		}
	}
	require.Contains(t, script.String(), "createLoadBalancerRule")
	out := runShell(t, script.String())
	require.Equal(t, 1, strings.Count(out, `"jobstatus":2`), "the fault makes one job fail")
	require.Contains(t, out, `"hits":1`)
}

// TestPageListsEveryFault checks that docs/contributing/simulator.md and the help list every kind of fault.
func TestPageListsEveryFault(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "contributing", "simulator.md"))
	require.NoError(t, err)
	_, err = execute(t, "--fault", "listZones:unknown")
	_, kinds, ok := strings.Cut(err.Error(), "use one of ")
	require.True(t, ok)
	for _, kind := range strings.Split(kinds, ", ") {
		require.Contains(t, tutorial, kind)
		require.Contains(t, string(page), "| `"+kind+"` |")
	}
}

// TestCommandsOfTheDocs checks that each `cloudstack-sim ...` in a Markdown file uses existing flags.
func TestCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	root, err := pages.Root()
	require.NoError(t, err)
	all, err := pages.ReadAll(root)
	require.NoError(t, err)
	commands, err := pages.Commands(all, "cloudstack-sim")
	require.NoError(t, err)
	require.NotEmpty(t, commands)
	for _, c := range commands {
		if problem := c.Problem(newCommand(nil, nil)); problem != "" {
			t.Error(problem)
		}
	}
}
