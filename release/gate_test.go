// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/source"
)

// The steps of a maintainer from a changed tree to one that may be released.
func TestGate(t *testing.T) {
	t.Parallel()
	f := newTree(t, map[string]string{"CHANGELOG.md": "# Changelog\n\n## [1.2.3] - 2026-01-31\n\n- x\n"})
	refused := func() []string {
		out, err := f.release("check", "--version", "v1.2.3", "--govulncheck", "true")
		var lines []string
		for line := range strings.Lines(out) {
			if text, no := strings.CutPrefix(line, "no  "); no {
				lines = append(lines, strings.Join(strings.Fields(text), " "))
			}
		}
		if len(lines) > 0 {
			require.ErrorIs(t, err, errRefused)
		} else {
			require.NoError(t, err)
			require.Equal(t, 6, strings.Count(out, "\n"))
		}
		return lines
	}
	test := func(command ...string) error {
		_, err := f.release(append([]string{"test", "--version", "v1.2.3"}, command...)...)
		return err
	}
	remove := func() { require.NoError(t, os.Remove(filepath.Join(f.dir, "new"))) }
	const untested = "tests these files have not passed the tests here: go run ./release test"

	assert.Equal(t, []string{"tag the commit has no tag v1.2.3: git tag -s v1.2.3", untested}, refused())
	f.git("tag", "v1.2.3")
	f.write("new", "")
	assert.Equal(t, []string{"clean tree 1 files differ from the commit (?? new): commit or remove them", untested}, refused())
	require.ErrorContains(t, test("true"), "1 files differ")
	remove()

	require.ErrorContains(t, test("false"), "false: exit status 1")
	assert.Equal(t, []string{untested}, refused())
	require.ErrorContains(t, test("touch", "new"), "the tests changed the tree: 1 files differ")
	remove()

	require.NoError(t, test("true"))
	assert.Empty(t, refused())

	// Failing tests remove the record of earlier ones.
	require.Error(t, test("false"))
	assert.Equal(t, []string{untested}, refused())
	require.NoError(t, test("true"))

	f.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- x\n")
	f.git("commit", "-q", "-a", "-m", "two")
	f.git("tag", "-f", "v1.2.3")
	assert.Equal(t, []string{"changelog changelog has no section ## [1.2.3]", untested}, refused())
}

func TestNoRepository(t *testing.T) {
	t.Parallel()
	f := &fixture{t: t, dir: t.TempDir()}
	out, err := f.release("check", "--version", "v1.2.3")
	require.ErrorIs(t, err, errRefused)
	assert.Regexp(t, `^no  clean tree      this is not a git repository \(git rev-parse: fatal: .*\)`, out)
}

func TestVersionWithoutTag(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"1.2.3":                  "the commit has no tag v1.2.3: git tag -s v1.2.3",
		"1.2.3-rc.1":             "the commit has no tag v1.2.3-rc.1: git tag -s v1.2.3-rc.1",
		"1.2.3-dirty":            "v1.2.3-dirty is not a release tag: tag the commit, git tag -s v1.2.3",
		"1.2.3-rc.1-3-gabcdef01": "v1.2.3-rc.1-3-gabcdef01 is not a release tag: tag the commit, git tag -s v1.2.3",
		"0.0.0-dev":              "v0.0.0-dev is not a release tag: tag the commit, git tag -s v1.2.3",
	} {
		f := tagged(source.Tree{Version: version, Tags: []string{"v1.0.0"}})
		assert.False(t, f.ok)
		assert.Equal(t, want, f.detail)
	}
}

func TestVulnerabilities(t *testing.T) {
	t.Parallel()
	const offline = `echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host' >&2; exit 1`
	for name, tc := range map[string]struct {
		c    gate
		want string
	}{
		"none": {gate{govulncheck: script(t, "exit 0")}, "ok  vulnerabilities govulncheck knows none that the programs reach"},
		"some": {
			gate{govulncheck: script(t, `printf 'Vulnerability #1: GO-2026-1\n\nVulnerability #2: GO-2026-2\n'; exit 3`), allowUnchecked: true},
			"no  vulnerabilities govulncheck found vulnerabilities: GO-2026-1, GO-2026-2",
		},
		"offline": {
			gate{govulncheck: script(t, offline)},
			`no  vulnerabilities NOT CHECKED, govulncheck's database cannot be reached: govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host (use --vuln-db for a copy, or --allow-unchecked-vulnerabilities to continue)`,
		},
		"offline, allowed": {
			gate{govulncheck: script(t, offline), allowUnchecked: true},
			`--  vulnerabilities NOT CHECKED, govulncheck's database cannot be reached: govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host`,
		},
		"other": {
			gate{govulncheck: script(t, "echo what >&2; exit 2"), allowUnchecked: true},
			"no  vulnerabilities govulncheck failed: exit status 2: what",
		},
		"database": {
			gate{govulncheck: script(t, `test "$*" = "-db file:///db ./cmd/..."`), vulnDB: "file:///db"},
			"ok  vulnerabilities govulncheck knows none that the programs reach",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, tc.c.vulnerabilities(t.Context(), ".").String())
		})
	}
}
