// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source says which state of the source tree a release is made from.
package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// Tree is a state of the source.
type Tree struct {
	// Stamp is what the binaries say: the tag, or git describe's answer.
	Stamp string
	// Version is semantic, without a leading v.
	Version string
	// Commit is the short hash, "unknown" outside of git.
	Commit string
	// Revision is the whole hash, Content that of the files (git's tree): it stays when a commit only has another
	// message or parent. Both are empty outside of git.
	Revision, Content string
	// NoGit is why there is no revision, in git's words.
	NoGit string
	// Tags are those of the commit.
	Tags []string
	// Changes are what git status lists; empty for a clean tree.
	Changes []string
	// Time is that of the commit (or SOURCE_DATE_EPOCH): two builds of one commit are the same bytes.
	Time time.Time
}

// Tag is the version as git and image tags have it: v1.2.3.
func (t Tree) Tag() string { return "v" + t.Version }

// ImageTag is Tag without the plus sign, which a registry refuses.
func (t Tree) ImageTag() string { return strings.ReplaceAll(t.Tag(), "+", "_") }

// Date is Time as the binaries say it; "unknown" without a commit.
func (t Tree) Date() string {
	if t.Time.Unix() == 0 {
		return "unknown"
	}
	return t.Time.UTC().Format(time.RFC3339)
}

// fallback is the version of a tree without a tag, as in the Makefile.
const fallback = "v0.0.0-dev"

// Read describes the tree in dir. version, if not empty, goes before what git says.
func Read(ctx context.Context, dir, version string) (Tree, error) {
	tree := Tree{Stamp: version, Commit: "unknown", Time: time.Unix(0, 0).UTC()}
	if tree.Stamp == "" {
		tree.Stamp = fallback
		if described, err := git(ctx, dir, "describe", "--tags", "--match", "v[0-9]*", "--dirty"); err == nil {
			tree.Stamp = described
		}
	}
	var err error
	if tree.Version, err = Semantic(tree.Stamp); err != nil {
		return Tree{}, err
	}
	if commit, err := git(ctx, dir, "rev-parse", "--short=12", "HEAD"); err != nil {
		tree.NoGit, _, _ = strings.Cut(err.Error(), "\n")
	} else {
		tree.Commit = commit
		if err := tree.state(ctx, dir); err != nil {
			return Tree{}, err
		}
		if seconds, err := git(ctx, dir, "log", "-1", "--format=%ct"); err == nil {
			if tree.Time, err = epoch(seconds); err != nil {
				return Tree{}, fmt.Errorf("time of the commit: %w", err)
			}
		}
	}
	if seconds := os.Getenv("SOURCE_DATE_EPOCH"); seconds != "" {
		if tree.Time, err = epoch(seconds); err != nil {
			return Tree{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
	}
	return tree, nil
}

// state fills in what a release is refused for.
func (t *Tree) state(ctx context.Context, dir string) (err error) {
	if t.Revision, err = git(ctx, dir, "rev-parse", "HEAD"); err != nil {
		return err
	}
	if t.Content, err = git(ctx, dir, "rev-parse", "HEAD^{tree}"); err != nil {
		return err
	}
	tags, err := git(ctx, dir, "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	t.Tags = strings.Fields(tags)
	changes, err := git(ctx, dir, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		t.Changes = strings.Split(changes, "\n")
	}
	return nil
}

// GitDir is git's folder of the tree in dir, the same for all its work trees.
func GitDir(ctx context.Context, dir string) (string, error) {
	return git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
}

func epoch(seconds string) (time.Time, error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no number of seconds", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// Semantic makes a semantic version, without a leading v, of a tag or of git describe's answer.
func Semantic(stamp string) (string, error) {
	parsed, err := semver.StrictNewVersion(strings.TrimPrefix(stamp, "v"))
	if err != nil {
		return "", fmt.Errorf("version %q: want a semantic version such as v1.2.3", stamp)
	}
	return parsed.String(), nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
