// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate checks whether a source tree may be released.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/release/internal/notes"
	"github.com/csccm/csccm/release/internal/source"
)

// Finding is the result of one check.
type Finding struct {
	// What is the short name of the check.
	What string
	// OK is true if the check passed. Waived is true if it did not pass and a flag allows the release anyway.
	OK, Waived bool
	// Detail is the result in one line, with what to do if the check did not pass.
	Detail string
}

// String returns the finding as a line of a report.
func (f Finding) String() string {
	mark := "no "
	switch {
	case f.OK:
		mark = "ok "
	case f.Waived:
		mark = "-- "
	}
	return fmt.Sprintf("%s %-15s %s", mark, f.What, f.Detail)
}

// ErrRefused means that a tree may not be released.
var ErrRefused = errors.New("this tree may not be released")

// Conditions are the settings of Check.
type Conditions struct {
	// Dir is the directory of the tree.
	Dir string
	// Govulncheck is the command line of govulncheck. VulnDB is the URL of its database; empty means its default.
	Govulncheck []string
	VulnDB      string
	// AllowUnchecked allows a release if the database cannot be reached, but never with known vulnerabilities.
	AllowUnchecked bool
}

// Check runs all checks. The error is ErrRefused if one of them did not pass and is not waived.
func Check(ctx context.Context, tree source.Tree, c Conditions) ([]Finding, error) {
	findings := []Finding{clean(tree), tagged(tree), changelog(c.Dir, tree), tested(ctx, c.Dir, tree)}
	// Skip this check if the tree is already refused: it takes a minute.
	if !slices.ContainsFunc(findings, func(f Finding) bool { return !f.OK }) {
		findings = append(findings, vulnerabilities(ctx, c))
	}
	for _, f := range findings {
		if !f.OK && !f.Waived {
			return findings, ErrRefused
		}
	}
	return findings, ctx.Err()
}

func clean(tree source.Tree) Finding {
	f := Finding{What: "clean tree", OK: tree.Revision != "" && len(tree.Changes) == 0, Detail: "commit " + tree.Commit}
	switch {
	case tree.Revision == "":
		// The tree may also be a repository that git does not trust, as in a job that runs as another user.
		f.Detail = "this is not a git repository (" + tree.NoGit + ")"
	case !f.OK:
		f.Detail = fmt.Sprintf("%d files differ from the commit (%s): commit or remove them", len(tree.Changes), strings.TrimSpace(tree.Changes[0]))
	}
	return f
}

// described matches versions that are not tags: the output of git describe for a commit without a tag or for a changed
// tree, and the default version of a tree without tags.
var described = regexp.MustCompile(`-\d+-g[0-9a-f]+$|-dirty$|^v0\.0\.0-dev`)

func tagged(tree source.Tree) Finding {
	f := Finding{What: "tag", OK: slices.Contains(tree.Tags, tree.Tag()), Detail: tree.Tag()}
	switch {
	case f.OK:
	case described.MatchString(tree.Tag()):
		f.Detail = fmt.Sprintf("%s is not a release tag: tag the commit, git tag -s v1.2.3", tree.Tag())
	default:
		f.Detail = fmt.Sprintf("the commit has no tag %s: git tag -s %s", tree.Tag(), tree.Tag())
	}
	return f
}

func changelog(dir string, tree source.Tree) Finding {
	f := Finding{What: "changelog"}
	text, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	section, err := notes.Find(string(text), tree.Version)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	f.OK, f.Detail = true, fmt.Sprintf("section %s, %d points", section.Version, len(section.Changes()))
	return f
}

func tested(ctx context.Context, dir string, tree source.Tree) Finding {
	f := Finding{What: "tests"}
	record, err := Tested(ctx, dir, tree)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Detail = "these files have not passed the tests here: go run ./release test"
	case err != nil:
		f.Detail = err.Error()
	default:
		f.OK, f.Detail = true, fmt.Sprintf("%q passed with %s at %s", record.Command, record.Go, record.Time)
	}
	return f
}
