// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate decides whether a tree may be released.
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

// Finding is the answer to one question.
type Finding struct {
	// What was asked, in a word.
	What string
	// OK tells that nothing is in the way; Waived that something is and that a flag lets it pass.
	OK, Waived bool
	// Detail says in one line what was found, and what to do where it is not OK.
	Detail string
}

// String is the line of a report.
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

// ErrRefused is that a tree may not be released.
var ErrRefused = errors.New("this tree may not be released")

// Conditions are how the gate asks.
type Conditions struct {
	// Dir is the folder of the tree.
	Dir string
	// Govulncheck is its command line; VulnDB the URL of its database, empty for its own.
	Govulncheck []string
	VulnDB      string
	// AllowUnchecked lets a release pass where the database cannot be reached. Known vulnerabilities never pass.
	AllowUnchecked bool
}

// Check asks everything; the error is ErrRefused if anything is in the way.
func Check(ctx context.Context, tree source.Tree, c Conditions) ([]Finding, error) {
	findings := []Finding{clean(tree), tagged(tree), changelog(c.Dir, tree), tested(ctx, c.Dir, tree)}
	// Not asked for a tree that is refused anyway: it takes a minute.
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
		// Or one that git does not trust, as in a job that runs as another user.
		f.Detail = "this is no git repository (" + tree.NoGit + ")"
	case !f.OK:
		f.Detail = fmt.Sprintf("%d files differ from the commit (%s): commit or remove them", len(tree.Changes), strings.TrimSpace(tree.Changes[0]))
	}
	return f
}

// described is a version that git describe makes of a commit without a tag or of a changed tree, or that of no tag at all.
var described = regexp.MustCompile(`-\d+-g[0-9a-f]+$|-dirty$|^v0\.0\.0-dev`)

func tagged(tree source.Tree) Finding {
	f := Finding{What: "tag", OK: slices.Contains(tree.Tags, tree.Tag()), Detail: tree.Tag()}
	switch {
	case f.OK:
	case described.MatchString(tree.Tag()):
		f.Detail = fmt.Sprintf("%s is no release, but git describe's word for this tree: tag the commit, git tag -s v1.2.3", tree.Tag())
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
