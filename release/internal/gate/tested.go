// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/csccm/csccm/release/internal/source"
)

// Record records that the tests of a tree passed. It is stored in git's directory under the hash of the content: it is
// valid for every commit with the same files, and not if any file differs.
type Record struct {
	Content  string `json:"content"`
	Revision string `json:"revision"`
	Command  string `json:"command"`
	Go       string `json:"go"`
	Time     string `json:"time"`
	Seconds  int    `json:"seconds"`
}

func recordFile(ctx context.Context, dir string, tree source.Tree) (string, error) {
	if tree.Content == "" {
		return "", errors.New("this is not a git repository")
	}
	git, err := source.GitDir(ctx, dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(git, "csccm-tested", tree.Content+".json"), nil
}

// Tested returns the record of a tree's tests; fs.ErrNotExist if there is none.
func Tested(ctx context.Context, dir string, tree source.Tree) (*Record, error) {
	file, err := recordFile(ctx, dir, tree)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil || r.Content != tree.Content {
		return nil, fmt.Errorf("%s: not a record of this tree's tests", file)
	}
	return &r, nil
}

// Test runs the tests of a clean tree (a command in dir) and records that they passed. A tree with changes, before
// or after the tests, is an error: the tested files would not be the released ones.
func Test(ctx context.Context, dir, version string, command []string, out io.Writer, now func() time.Time) (*Record, error) {
	tree, err := source.Read(ctx, dir, version)
	if err != nil {
		return nil, err
	}
	if f := clean(tree); !f.OK {
		return nil, errors.New(f.Detail)
	}
	file, err := recordFile(ctx, dir, tree)
	if err != nil {
		return nil, err
	}
	// Remove an older record: it must not remain if the tests fail now.
	if err := os.RemoveAll(file); err != nil {
		return nil, err
	}
	began := now()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the maintainer's own command
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	after, err := source.Read(ctx, dir, version)
	if err != nil {
		return nil, err
	}
	if f := clean(after); !f.OK || after.Content != tree.Content {
		return nil, fmt.Errorf("the tests changed the tree: %s", f.Detail)
	}
	r := &Record{
		Content: tree.Content, Revision: tree.Revision, Command: strings.Join(command, " "), Go: runtime.Version(),
		Time: now().UTC().Format(time.RFC3339), Seconds: int(now().Sub(began).Seconds()),
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return nil, err
	}
	return r, os.WriteFile(file, append(data, '\n'), 0o600)
}
