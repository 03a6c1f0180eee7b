// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source identifies the state of the source tree from which a release is built, and builds its programs.
package source

import (
	"bytes"
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

// Tree is a state of the source tree.
type Tree struct {
	// Stamp is the version that the binaries print: the tag, or the output of git describe.
	Stamp string
	// Version is the semantic version, without a leading v.
	Version string
	// Commit is the short commit hash, or "unknown" outside a git repository.
	Commit string
	// Revision is the full commit hash. Content is the hash of git's tree object, which is the same for commits that
	// differ only in message or parent. Both are empty outside a git repository.
	Revision, Content string
	// NoGit is git's error if there is no revision.
	NoGit string
	// Tags are the tags of the commit.
	Tags []string
	// Changes are the lines of git status; empty for a clean tree.
	Changes []string
	// Time is the time of the commit, or SOURCE_DATE_EPOCH. Builds use it instead of the current time, so that they are
	// reproducible.
	Time time.Time
}

// Tag returns the version with a leading v, as in git and image tags: v1.2.3.
func (t Tree) Tag() string { return "v" + t.Version }

// ImageTag returns Tag with the plus sign, which is not allowed in registries, replaced by an underscore.
func (t Tree) ImageTag() string { return strings.ReplaceAll(t.Tag(), "+", "_") }

// Date returns Time as the binaries print it; "unknown" without a commit.
func (t Tree) Date() string {
	if t.Time.Unix() == 0 {
		return "unknown"
	}
	return t.Time.UTC().Format(time.RFC3339)
}

// fallback is the version of a tree without a tag, as in the Makefile.
const fallback = "v0.0.0-dev"

// Read returns the state of the tree in dir. version, if not empty, overrides git's version.
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

// state sets the fields that the gate checks.
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

// GitDir returns git's common directory of the tree in dir, which is the same for all its worktrees.
func GitDir(ctx context.Context, dir string) (string, error) {
	return git(ctx, dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
}

func epoch(seconds string) (time.Time, error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a number of seconds", seconds)
	}
	return time.Unix(n, 0).UTC(), nil
}

// Semantic converts a tag or the output of git describe to a semantic version without a leading v.
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

const versionPackage = "github.com/csccm/csccm/pkg/version"

// Platform is an operating system and an architecture, with Go's names.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Flags returns the arguments of go build for reproducible binaries. They are those of the
// Makefile and the Dockerfile, plus an empty build ID.
func Flags(tree Tree) []string {
	set := []string{
		"-X " + versionPackage + ".Version=" + tree.Stamp,
		"-X " + versionPackage + ".Commit=" + tree.Commit,
		"-X " + versionPackage + ".Date=" + tree.Date(),
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= " + strings.Join(set, " ")}
}

// Environment returns the environment variables, other than the platform, that must not depend on the machine. GOFLAGS
// is set to Go's default, because an empty value would not override a value set by `go env -w`.
func Environment() []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off"}
}

// Build builds a main package (./cmd/cloudstack-ccm) of the module in dir for a platform into the file out.
func Build(ctx context.Context, dir, pkg string, platform Platform, tree Tree, out string, tags ...string) error {
	args := append([]string{"build"}, Flags(tree)...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-tags="+strings.Join(tags, ","), "-o", out, pkg)...) //nolint:gosec // a build tool runs the compiler
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), Environment()...), "GOOS="+platform.OS, "GOARCH="+platform.Arch)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s for %s: %w\n%s", pkg, platform, err, strings.TrimSpace(said.String()))
	}
	return nil
}
