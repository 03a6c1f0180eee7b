// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/release/internal/notes"
	"github.com/csccm/csccm/release/internal/source"
)

// gate holds the flags of the checks that a tree must pass before a release.
type gate struct {
	govulncheck    string
	vulnDB         string
	allowUnchecked bool
}

func (g *gate) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&g.govulncheck, "govulncheck", "go tool -modfile=release/tools/go.mod govulncheck", "command line of govulncheck, which runs in the source tree")
	flags.StringVar(&g.vulnDB, "vuln-db", "", "URL of govulncheck's database, such as file:///copy (default: https://vuln.go.dev)")
	flags.BoolVar(&g.allowUnchecked, "allow-unchecked-vulnerabilities", false, "continue if that database cannot be reached; the release notes mention it")
}

func newCheckCommand(s *settings) *cobra.Command {
	var g gate
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether this tree may be released",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			tree, err := s.tree(cmd.Context())
			if err != nil {
				return err
			}
			_, err = g.check(cmd.Context(), s.root, tree, cmd.OutOrStdout())
			return err
		},
	}
	g.addFlags(cmd.Flags())
	return cmd
}

// finding is the result of one check.
type finding struct {
	// what is the short name of the check.
	what string
	// ok is true if the check passed. waived is true if it did not pass and a flag allows the release anyway.
	ok, waived bool
	// detail is the result in one line, with what to do if the check did not pass.
	detail string
}

// String returns the finding as a line of a report.
func (f finding) String() string {
	mark := "no "
	switch {
	case f.ok:
		mark = "ok "
	case f.waived:
		mark = "-- "
	}
	return fmt.Sprintf("%s %-15s %s", mark, f.what, f.detail)
}

// errRefused means that a tree may not be released.
var errRefused = errors.New("this tree may not be released")

// check runs all checks of the tree in dir and prints the findings. The error is errRefused if one of them did not pass
// and is not waived.
func (g *gate) check(ctx context.Context, dir string, tree source.Tree, out io.Writer) ([]finding, error) {
	findings := []finding{clean(tree), tagged(tree), changelog(dir, tree), keyPublished(dir), tested(ctx, dir, tree)}
	failed := func(f finding) bool { return !f.ok && !f.waived }
	// Skip this check if the tree is already refused: it takes a minute.
	if !slices.ContainsFunc(findings, failed) {
		findings = append(findings, g.vulnerabilities(ctx, dir))
	}
	for _, f := range findings {
		if _, err := fmt.Fprintln(out, f); err != nil {
			return findings, err
		}
	}
	if slices.ContainsFunc(findings, failed) {
		return findings, errRefused
	}
	return findings, ctx.Err()
}

func clean(tree source.Tree) finding {
	f := finding{what: "clean tree", ok: tree.Revision != "" && len(tree.Changes) == 0, detail: "commit " + tree.Commit}
	switch {
	case tree.Revision == "":
		// The tree may also be a repository that git does not trust, as in a job that runs as another user.
		f.detail = "this is not a git repository (" + tree.NoGit + ")"
	case !f.ok:
		f.detail = fmt.Sprintf("%d files differ from the commit (%s): commit or remove them", len(tree.Changes), strings.TrimSpace(tree.Changes[0]))
	}
	return f
}

// described matches versions that are not tags: the output of git describe for a commit without a tag or for a changed
// tree, and the default version of a tree without tags.
var described = regexp.MustCompile(`-\d+-g[0-9a-f]+$|-dirty$|^v0\.0\.0-dev`)

func tagged(tree source.Tree) finding {
	f := finding{what: "tag", ok: slices.Contains(tree.Tags, tree.Tag()), detail: tree.Tag()}
	switch {
	case f.ok:
	case described.MatchString(tree.Tag()):
		f.detail = fmt.Sprintf("%s is not a release tag: tag the commit, git tag -s v1.2.3", tree.Tag())
	default:
		f.detail = fmt.Sprintf("the commit has no tag %s: git tag -s %s", tree.Tag(), tree.Tag())
	}
	return f
}

func changelog(dir string, tree source.Tree) finding {
	section, err := notes.Read(dir, tree.Version)
	if err != nil {
		return finding{what: "changelog", detail: err.Error()}
	}
	return finding{what: "changelog", ok: true, detail: fmt.Sprintf("section %s, %d points", section.Version, len(section.Changes()))}
}

func tested(ctx context.Context, dir string, tree source.Tree) finding {
	f := finding{what: "tests"}
	record, err := readRecord(ctx, dir, tree)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.detail = "these files have not passed the tests here: go run ./release test"
	case err != nil:
		f.detail = err.Error()
	default:
		f.ok, f.detail = true, fmt.Sprintf("%q passed with %s at %s", record.Command, record.Go, record.Time)
	}
	return f
}

// vulnerable is govulncheck's exit code if the program calls vulnerable code.
const vulnerable = 3

// vulnerabilityID finds the IDs in govulncheck's report.
var vulnerabilityID = regexp.MustCompile(`Vulnerability #\d+: (\S+)`)

func (g *gate) vulnerabilities(ctx context.Context, dir string) finding {
	f := finding{what: "vulnerabilities"}
	args := strings.Fields(g.govulncheck)
	if g.vulnDB != "" {
		args = append(args, "-db", g.vulnDB)
	}
	args = append(args, "./cmd/...")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // a release tool runs its checks
	cmd.Dir = dir
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	said := strings.TrimSpace(errOut.String())
	last := strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:])
	var exit *exec.ExitError
	switch {
	case err == nil:
		f.ok, f.detail = true, "govulncheck knows none that the programs reach"
	case errors.As(err, &exit) && exit.ExitCode() == vulnerable:
		var ids []string
		for _, m := range vulnerabilityID.FindAllStringSubmatch(out.String(), -1) {
			ids = append(ids, m[1])
		}
		f.detail = "govulncheck found vulnerabilities: " + strings.Join(ids, ", ")
	case strings.Contains(said, "fetching vulnerabilities"):
		f.waived = g.allowUnchecked
		f.detail = "NOT CHECKED, govulncheck's database cannot be reached: " + last
		if !f.waived {
			f.detail += " (use --vuln-db for a copy, or --allow-unchecked-vulnerabilities to continue)"
		}
	default:
		f.detail = fmt.Sprintf("govulncheck failed: %v: %s", err, last)
	}
	return f
}

func newTestCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "test [COMMAND [ARGUMENT...]]",
		Short: "Run the tests and record that they passed",
		Long: "Run the tests (default: make test lint) on a clean tree and record in git's directory that they passed for this\n" +
			"content. Without that record `release make` refuses the tree.",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"make", "test", "lint"}
			}
			r, err := s.test(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "passed in %d s, recorded for the content of commit %.12s\n", r.Seconds, r.Revision)
			return err
		},
	}
}

// record records that the tests of a tree passed. It is stored in git's directory under the hash of the content: it is
// valid for every commit with the same files, and not if any file differs.
type record struct {
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
	return filepath.Join(git, "csccm-tested", tree.Content+".json"), err
}

// readRecord returns the record of a tree's tests; fs.ErrNotExist if there is none.
func readRecord(ctx context.Context, dir string, tree source.Tree) (r record, err error) {
	file, err := recordFile(ctx, dir, tree)
	if err != nil {
		return r, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Content != tree.Content {
		return r, fmt.Errorf("%s: not a record of this tree's tests", file)
	}
	return r, nil
}

// test runs the tests of a clean tree and records that they passed. A tree with changes, before or after the tests, is
// an error: the tested files would not be the released ones.
func (s *settings) test(ctx context.Context, command []string, out io.Writer) (r record, err error) {
	tree, err := s.tree(ctx)
	if err != nil {
		return r, err
	}
	if f := clean(tree); !f.ok {
		return r, errors.New(f.detail)
	}
	file, err := recordFile(ctx, s.root, tree)
	if err != nil {
		return r, err
	}
	// Remove an older record: it must not remain if the tests fail now.
	if err := os.RemoveAll(file); err != nil {
		return r, err
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the maintainer's own command
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, out, out
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	after, err := s.tree(ctx)
	if err != nil {
		return r, err
	}
	if f := clean(after); !f.ok || after.Content != tree.Content {
		return r, fmt.Errorf("the tests changed the tree: %s", f.detail)
	}
	r = record{
		Content: tree.Content, Revision: tree.Revision, Command: strings.Join(command, " "), Go: runtime.Version(),
		Time: time.Now().UTC().Format(time.RFC3339), Seconds: int(time.Since(began).Seconds()),
	}
	data, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return r, err
	}
	return r, os.WriteFile(file, append(data, '\n'), 0o600)
}
