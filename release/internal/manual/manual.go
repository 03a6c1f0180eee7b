// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manual generates manual pages and shell completions by running the built program, so that they always match
// the program.
package manual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/release/internal/pack"
)

// Tag is the build tag of programs that write their manual pages into a folder and exit.
const Tag = "manual"

// Pages returns the manual pages of all commands of a program, which file is a build of with Tag.
func Pages(ctx context.Context, file string, date time.Time) (all []pack.File, err error) {
	dir, err := os.MkdirTemp("", "manual-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := output(ctx, file, date, dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, pack.File{Name: "man/" + e.Name(), Mode: 0o644, Data: data})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s wrote no manual page", file)
	}
	return all, nil
}

// shells are the shells that cobra supports, with the names of their completion files; %s is the program.
var shells = []struct{ name, file string }{
	{"bash", "completions/%s.bash"},
	{"zsh", "completions/_%s"},
	{"fish", "completions/%s.fish"},
	{"powershell", "completions/%s.ps1"},
}

// Completions returns the completion scripts of the program in file.
func Completions(ctx context.Context, file, name string) ([]pack.File, error) {
	var all []pack.File
	for _, shell := range shells {
		script, err := output(ctx, file, time.Time{}, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(script, name) {
			return nil, fmt.Errorf("%s completion %s prints no completion", name, shell.name)
		}
		all = append(all, pack.File{Name: fmt.Sprintf(shell.file, name), Mode: 0o644, Data: []byte(script)})
	}
	return all, nil
}

// output runs the program in an environment that does not depend on this machine.
func output(ctx context.Context, file string, date time.Time, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Env = []string{
		"HOME=/home/user", "NO_COLOR=1", "TERM=dumb", "LANG=C.UTF-8", "PATH=/usr/bin", "TZ=UTC",
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(date.Unix(), 10), // the date of the pages
	}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("%s: %w", strings.Join(append([]string{file}, args...), " "), err)
	}
	return string(out), nil
}
