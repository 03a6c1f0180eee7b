// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram makes the test binary act as the program, so that tests have a process with signals and an exit code.
const asProgram = "CSCCM_TEST_PROGRAM"

// process returns the program as a process that has not started.
func process(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.CommandContext(t.Context(), self, args...) // #nosec G204 -- the test itself
	cmd.Env = []string{asProgram + "=1", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	stderr = &bytes.Buffer{}
	cmd.Stderr, cmd.Dir = stderr, dir
	return cmd, stderr
}

func codeOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// cksArguments are the arguments of those commands of csccm cks that require arguments.
var cksArguments = map[string][]string{
	"cks show":             {"demo"},
	"cks kubeconfig":       {"demo"},
	"cks create":           {"new", "--zone", "zone-1", "--offering", "node"},
	"cks scale":            {"demo", "--size", "3"},
	"cks versions add":     {"1.34.1", "--url", "http://web.example/x.iso"},
	"cks versions enable":  {"v1"},
	"cks versions disable": {"v1"},
	"cks versions delete":  {"v1"},
	"cks add-nodes":        {"demo", "vm"},
	"cks remove-nodes":     {"demo", "vm"},
	"cks dashboard":        {"demo"},
	"cks cni add":          {"calico", "--file", "../../LICENSE"}, "cks cni delete": {"calico"},
	"cks upgrade": {"demo", "--version", "1.33.4"},
	"cks start":   {"halted"},
	"cks stop":    {"demo"},
	"cks delete":  {"demo"},
}

// talking returns the commands that call a cluster or CloudStack and wait for the answer.
func talking() (names []string) {
	alone := []string{"", "completion", "cks", "cks cni", "cks iso", "version"}
	for _, c := range allCommands() {
		if name := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "csccm")); !slices.Contains(alone, name) {
			names = append(names, name)
		}
	}
	return names
}

// changing returns the commands that change something in a cluster or in CloudStack.
func changing() (names []string) {
	for _, c := range allCommands() {
		if c.Flags().Lookup("dry-run") != nil {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "csccm "))
		}
	}
	return names
}

// How every command ends when it is interrupted or its timeout expires, tested with real processes.
func TestExitCodesOfTimeouts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	// Servers that never answer: a common one, and one for each command that is interrupted, which reports when it gets
	// a request.
	silent := func(t *testing.T, asked func()) string {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked()
			_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection only after it has read the body
			<-r.Context().Done()
		}))
		t.Cleanup(s.Close)
		return s.URL
	}

	silence := silent(t, func() {})
	more := map[string][]string{"support-bundle": {"--file", filepath.Join(dir, "b")}}
	for command, args := range cksArguments {
		more[command] = args
	}

	for _, command := range talking() {
		args := more[command]
		t.Run("124 "+command, func(t *testing.T) {
			t.Parallel()
			cmd, stderr := process(t, dir,
				slices.Concat(strings.Fields(command), []string{"--server", silence, "--timeout", "300ms"}, args)...)
			require.Equal(t, 124, codeOf(t, cmd.Run()), stderr)
			require.Regexp(t, `  fix: .*raise --timeout`, stderr.String())
		})

		t.Run("130 "+command, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{})
			url := silent(t, sync.OnceFunc(func() { close(asked) }))
			cmd, stderr := process(t, dir, slices.Concat(strings.Fields(command), []string{"--server", url}, args)...)
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			require.NoError(t, cmd.Start())
			<-asked // the command waits for an answer
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			require.Equal(t, 130, codeOf(t, cmd.Wait()), stderr)
			require.Contains(t, stderr.String(), "interrupted")
			require.NotContains(t, stdout.String()+stderr.String(), "context canceled")
			if slices.Contains(changing(), command) {
				require.Contains(t, stderr.String(), "  fix: run the same command again")
			} else {
				require.NotContains(t, stderr.String(), "  fix: ")
			}

			if command == "doctor" || command == "status" {
				require.Regexp(t, `(?m)^error: interrupted: \d+ of \d+ checks had not ended$`, stderr.String())
				require.Regexp(t, `\d not finished\n`, stdout.String())
				require.NotContains(t, stdout.String(), "see: ", "what was not looked at is no finding")
			}
		})
	}
}

// ^C is the normal way to end a watch, so no error is printed; there is only the exit code.
func TestWatchEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status", "doctor"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			cmd, stderr := process(t, t.TempDir(), command, "--watch", "--server", "http://127.0.0.1:1")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = out.Read(make([]byte, 1)) // the first round is shown
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			_, _ = io.Copy(io.Discard, out)
			require.Equal(t, 130, codeOf(t, cmd.Wait()), stderr)
			require.NotContains(t, stderr.String(), "error:")
		})
	}
}

// As a plugin: kubectl runs kubectl-csccm from the PATH, and kubectl_complete-csccm for the shell's completion.
func TestPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	plugin, script := filepath.Join(dir, "kubectl-csccm"), filepath.Join(dir, "kubectl_complete-csccm")
	require.NoError(t, os.Symlink(self, plugin))
	run := func(program string, args ...string) string {
		cmd, stderr := process(t, dir, args...)
		cmd.Path, cmd.Args[0] = program, program
		cmd.Env = append(cmd.Env, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		var out bytes.Buffer
		cmd.Stdout = &out
		require.NoError(t, cmd.Run(), stderr)
		return out.String()
	}

	require.Contains(t, run(plugin, "doctor", "--help"), "kubectl csccm doctor [flags]")
	text := run(plugin, "completion", "kubectl")

	// A process that another test starts meanwhile would inherit the open file, and Linux does not execute a file that
	// is open for writing.
	syscall.ForkLock.RLock()
	err = os.WriteFile(script, []byte(text), 0o700) // #nosec G306 -- a program
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	require.Contains(t, run(script, "doctor", "--fail-on", ""), "error\nwarning\n:4")
}
