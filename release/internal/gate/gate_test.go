// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/source"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "CHANGELOG.md", "# Changelog\n\n## [1.2.3] - 2026-01-31\n\n- x\n")
	git(t, dir, "init", "-q")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "one")
	return dir
}

func read(t *testing.T, dir string) source.Tree {
	t.Helper()
	tree, err := source.Read(t.Context(), dir, "v1.2.3")
	require.NoError(t, err)
	return tree
}

var now = func() time.Time { return time.Unix(1700000000, 0) }

// The steps of a maintainer from a changed tree to one that may be released.
func TestGate(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	c := Conditions{Dir: dir, Govulncheck: []string{"true"}}
	refused := func() []string {
		findings, err := Check(t.Context(), read(t, dir), c)
		var lines []string
		for _, f := range findings {
			if !f.OK {
				lines = append(lines, f.What+": "+f.Detail)
			}
		}
		if len(lines) > 0 {
			require.ErrorIs(t, err, ErrRefused)
		} else {
			require.NoError(t, err)
			require.Len(t, findings, 5)
		}
		return lines
	}
	const untested = "tests: these files have not passed the tests here: go run ./release test"

	assert.Equal(t, []string{"tag: the commit has no tag v1.2.3: git tag -s v1.2.3", untested}, refused())
	git(t, dir, "tag", "v1.2.3")
	write(t, dir, "new", "")
	assert.Equal(t, []string{"clean tree: 1 files differ from the commit (?? new): commit or remove them", untested}, refused())
	_, err := Test(t.Context(), dir, "v1.2.3", []string{"true"}, io.Discard, now)
	require.ErrorContains(t, err, "1 files differ")
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))

	_, err = Test(t.Context(), dir, "v1.2.3", []string{"false"}, io.Discard, now)
	require.ErrorContains(t, err, "false: exit status 1")
	assert.Equal(t, []string{untested}, refused())
	_, err = Test(t.Context(), dir, "v1.2.3", []string{"touch", "new"}, io.Discard, now)
	require.ErrorContains(t, err, "the tests changed the tree: 1 files differ")
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))

	record, err := Test(t.Context(), dir, "v1.2.3", []string{"true"}, io.Discard, now)
	require.NoError(t, err)
	assert.Equal(t, "2023-11-14T22:13:20Z", record.Time)
	assert.Empty(t, refused())

	// Failing tests remove the record of earlier ones.
	_, err = Test(t.Context(), dir, "v1.2.3", []string{"false"}, io.Discard, now)
	require.Error(t, err)
	assert.Equal(t, []string{untested}, refused())
	_, err = Test(t.Context(), dir, "v1.2.3", []string{"true"}, io.Discard, now)
	require.NoError(t, err)

	write(t, dir, "CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- x\n")
	git(t, dir, "commit", "-q", "-a", "-m", "two")
	git(t, dir, "tag", "-f", "v1.2.3")
	assert.Equal(t, []string{"changelog: changelog has no section ## [1.2.3]", untested}, refused())
}

func TestNoRepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	findings, err := Check(t.Context(), read(t, dir), Conditions{Dir: dir})
	require.ErrorIs(t, err, ErrRefused)
	assert.Regexp(t, `^no  clean tree      this is not a git repository \(git rev-parse: fatal: .*\)$`, findings[0].String())
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
		assert.False(t, f.OK)
		assert.Equal(t, want, f.Detail)
	}
}

func TestVulnerabilities(t *testing.T) {
	t.Parallel()
	script := func(text string) []string { return []string{"sh", "-c", text, "govulncheck"} }
	const offline = `echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host' >&2; exit 1`
	for name, tc := range map[string]struct {
		c    Conditions
		want string
	}{
		"none": {Conditions{Govulncheck: script("exit 0")}, "ok  vulnerabilities govulncheck knows none that the programs reach"},
		"some": {
			Conditions{Govulncheck: script(`printf 'Vulnerability #1: GO-2026-1\n\nVulnerability #2: GO-2026-2\n'; exit 3`), AllowUnchecked: true},
			"no  vulnerabilities govulncheck: GO-2026-1, GO-2026-2",
		},
		"offline": {
			Conditions{Govulncheck: script(offline)},
			`no  vulnerabilities NOT CHECKED, govulncheck's database cannot be reached: govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host (use --vuln-db for a copy, or --allow-unchecked-vulnerabilities to continue)`,
		},
		"offline, allowed": {
			Conditions{Govulncheck: script(offline), AllowUnchecked: true},
			`--  vulnerabilities NOT CHECKED, govulncheck's database cannot be reached: govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host`,
		},
		"other": {
			Conditions{Govulncheck: script("echo what >&2; exit 2"), AllowUnchecked: true},
			"no  vulnerabilities govulncheck failed: exit status 2: what",
		},
		"database": {
			Conditions{Govulncheck: script(`test "$*" = "-db file:///db ./cmd/..."`), VulnDB: "file:///db"},
			"ok  vulnerabilities govulncheck knows none that the programs reach",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, vulnerabilities(t.Context(), tc.c).String())
		})
	}
}
