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

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/internal/program"
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
	control, err := plane.Ensure(ctx, plane.Newest, program.Print(os.Stderr))
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
	t := &transcript{ctx: ctx, env: env, cli: programs.CLI}
	if t.inspector, err = env.Cloud.Client("inspector"); err != nil {
		return err
	}
	t.story()
	if file == "" || t.err != nil {
		_, _ = os.Stdout.Write(t.text.Bytes())
		return t.err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, t.text.Bytes(), 0o644) // #nosec G306 -- a page of the documentation
}

// transcript is a session and its output so far. After an error it does nothing more.
type transcript struct {
	ctx       context.Context
	env       *testenv.Env
	inspector *cloudstack.Client
	cli       string
	text      bytes.Buffer
	err       error
}

// say writes a paragraph of explanation.
func (t *transcript) say(text string) {
	fmt.Fprintf(&t.text, "\n# %s\n", strings.ReplaceAll(text, "\n", "\n# "))
}

// kubectl runs a kubectl command and writes it with its output.
func (t *transcript) kubectl(args ...string) { t.apply("", args...) }

// apply is kubectl with a manifest.
func (t *transcript) apply(manifest string, args ...string) {
	if out, code := t.exec(t.env.Kubectl, manifest, args...); t.err == nil {
		t.show("kubectl", manifest, args, out)
		t.wantCode(args, code, 0)
	}
}

// csccm runs a csccm command and writes it with its output and exit code, which must be want.
func (t *transcript) csccm(want int, args ...string) {
	if out, code := t.exec(t.cli, "", append(args, "--cloud-config", t.env.CloudConfig)...); t.err == nil {
		t.show("csccm", "", append(args, "--cloud-config", "cloud-config"), out)
		fmt.Fprintf(&t.text, "$ echo $?\n%d\n", code)
		t.wantCode(args, code, want)
	}
}

func (t *transcript) wantCode(args []string, code, want int) {
	if code != want {
		t.err = fmt.Errorf("%v: exit code %d, want %d", args, code, want)
	}
}

func (t *transcript) exec(program, stdin string, args ...string) (out string, code int) {
	if t.err != nil {
		return "", 0
	}
	cmd := exec.CommandContext(t.ctx, program, args...) // #nosec G204 -- programs of the test environment
	cmd.Env = []string{"KUBECONFIG=" + t.env.Kubeconfig, "HOME=" + t.env.Dir}
	cmd.Stdin = strings.NewReader(stdin)
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.err = err
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (t *transcript) show(program, stdin string, args []string, out string) {
	words := []string{program}
	for _, a := range args {
		words = append(words, testenv.Quote(a))
	}
	fmt.Fprintf(&t.text, "\n$ %s", strings.Join(words, " "))
	if stdin != "" {
		fmt.Fprintf(&t.text, " <<EOF\n%sEOF", stdin)
	}
	fmt.Fprintf(&t.text, "\n%s", t.withoutIDs(out))
}
