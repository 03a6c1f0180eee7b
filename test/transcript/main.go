// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command transcript writes docs/transcripts/loadbalancers.txt, what a user of load balancers sees: kubectl with a real
// API server and the controller, and the state of the simulated CloudStack. All commands are run; output that differs
// between runs (IDs, times) is left out.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

func main() {
	out := flag.String("o", "", "file to write; empty means standard output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *out)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "transcript:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	control, err := plane.Ensure(ctx, plane.Newest, plane.Print(os.Stderr))
	if err != nil {
		return err
	}
	programs, err := testenv.Build(ctx, testenv.BuildOptions{Dir: os.Getenv("CSCCM_BIN_DIR"), LDFlags: os.Getenv("CSCCM_LDFLAGS")})
	if err != nil {
		return err
	}
	env, err := testenv.New(ctx, testenv.Options{Programs: programs, Plane: control, VMs: 3, Nodes: 2, Profile: "simulator"})
	if err != nil {
		return err
	}
	defer env.Stop()
	t := &transcript{env: env, cli: programs.CLI}
	err = t.story(ctx)
	if file == "" {
		_, werr := os.Stdout.Write(t.text.Bytes())
		return errors.Join(err, werr)
	}
	if err != nil {
		_, _ = os.Stderr.Write(t.text.Bytes())
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, t.text.Bytes(), 0o644) // #nosec G306 -- a page of the documentation
}

// transcript is a session and its output so far.
type transcript struct {
	env  *testenv.Env
	cli  string
	text bytes.Buffer
}

// say writes a paragraph of explanation.
func (t *transcript) say(text string) {
	fmt.Fprintf(&t.text, "\n# %s\n", strings.ReplaceAll(text, "\n", "\n# "))
}

// kubectl runs a kubectl command and writes it with its output.
func (t *transcript) kubectl(ctx context.Context, stdin string, args ...string) error {
	out, _, err := t.exec(ctx, t.env.Kubectl, stdin, args...)
	t.show("kubectl", stdin, args, out)
	return err
}

// csccm runs a csccm command and writes it with its output and exit code, which must be want.
func (t *transcript) csccm(ctx context.Context, want int, args ...string) error {
	out, code, err := t.exec(ctx, t.cli, "", append(args, "--cloud-config", t.env.CloudConfig)...)
	t.show("csccm", "", append(args, "--cloud-config", "cloud-config"), out)
	fmt.Fprintf(&t.text, "$ echo $?\n%d\n", code)
	if code != want {
		return fmt.Errorf("csccm %v: exit code %d, want %d: %w", args, code, want, err)
	}
	return nil
}

func (t *transcript) exec(ctx context.Context, program, stdin string, args ...string) (out string, code int, err error) {
	cmd := exec.CommandContext(ctx, program, args...) // #nosec G204 -- programs of the test environment
	cmd.Env = []string{"KUBECONFIG=" + t.env.Kubeconfig, "HOME=" + t.env.Dir}
	cmd.Stdin = strings.NewReader(stdin)
	text, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %v: %w\n%s", filepath.Base(program), args, err, text)
	}
	return string(text), cmd.ProcessState.ExitCode(), err
}

func (t *transcript) show(program, stdin string, args []string, out string) {
	words := []string{program}
	for _, a := range args {
		words = append(words, quote(a))
	}
	fmt.Fprintf(&t.text, "\n$ %s", strings.Join(words, " "))
	if stdin != "" {
		fmt.Fprintf(&t.text, " <<EOF\n%sEOF", stdin)
	}
	fmt.Fprintf(&t.text, "\n%s", t.withoutIDs(out))
}

// quote quotes an argument for a shell.
func quote(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " $'\"()*?[]{}<>|&;\\`!#~\t\n") {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
