// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csccm/csccm/test/plane"
)

// user runs commands and records them with their output in the transcript.
type user struct {
	t          *testing.T
	env        *env
	home, host string
	text       bytes.Buffer
}

func (u *user) copy(file, as string) {
	u.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(u.home, as), text, 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) say(text string) { fmt.Fprintf(&u.text, "\n# %s\n", text) }

// exec runs a command in the user's home folder.
func (u *user) exec(program string, args ...string) (string, error) {
	cmd := exec.CommandContext(u.t.Context(), program, args...)
	cmd.Dir = u.home
	cmd.Env = []string{"HOME=" + u.home, "KUBECONFIG=" + u.env.Kubeconfig, "PATH=/usr/bin:/bin", "COLUMNS=100"}
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(&u.text, "\n$ %s %s\n%s", filepath.Base(program), strings.Join(args, " "), out)
	return string(out), err
}

func (u *user) must(program string, args ...string) string {
	u.t.Helper()
	out, err := u.exec(program, args...)
	if err != nil {
		u.t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, out)
	}
	return out
}

func (u *user) helm(args ...string) string    { u.t.Helper(); return u.must(tools.helm, args...) }
func (u *user) csccm(args ...string) string   { u.t.Helper(); return u.must(u.env.cli, args...) }
func (u *user) kubectl(args ...string) string { u.t.Helper(); return u.must(u.env.Kubectl, args...) }

// fails runs a helm command that must fail with an output that contains want.
func (u *user) fails(want string, args ...string) {
	u.t.Helper()
	out, err := u.exec(tools.helm, args...)
	if err == nil || !strings.Contains(out, want) {
		u.t.Fatalf("helm %v: want %q, got %v\n%s", args, want, err, out)
	}
}

// keep writes the transcript of a rehearsal.
func (u *user) keep() {
	u.t.Helper()
	text := strings.ReplaceAll(strings.ReplaceAll(u.text.String(), u.host, "127.0.0.1:5000"), u.home, "/home/me")
	if strings.Contains(text, password) {
		u.t.Error("the transcript contains the password")
	}
	if !*rehearse {
		return
	}
	module, err := plane.ModuleDir()
	if err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "..", "bin", "rehearsal.txt"), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}
