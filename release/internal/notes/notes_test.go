// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package notes

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const changelog = `# Changelog

## [Unreleased]

### Added

- New
  thing.
- Other.

## [0.2.0]

## [0.1.2] - tomorrow

- x

## [0.1.1]

- x

## [0.1.0] - 2026-11-21

### Fixed

- A [link].

[link]: https://example.org
`

func TestFind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ version, date, text, err string }{
		"release":                     {version: "0.1.0", date: "2026-11-21", text: "### Fixed\n\n- A [link].\n\n[link]: https://example.org"},
		"pre-release of a section":    {version: "0.1.0-rc.1", date: "2026-11-21", text: "### Fixed\n\n- A [link].\n\n[link]: https://example.org"},
		"pre-release, unreleased":     {version: "0.3.0-rc.1", text: "### Added\n\n- New\n  thing.\n- Other."},
		"release without its section": {version: "0.3.0", err: "changelog has no section ## [0.3.0]"},
		"empty":                       {version: "0.2.0", err: "changelog: section 0.2.0 is empty"},
		"invalid date":                {version: "0.1.2", err: "changelog: the heading of 0.1.2 has no date: ## [0.1.2] - 2026-01-31"},
		"without a date":              {version: "0.1.1", err: "changelog: the heading of 0.1.1 has no date: ## [0.1.1] - 2026-01-31"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Find(changelog, tc.version)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.date, s.Date)
			assert.Equal(t, tc.text, s.Text)
		})
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	s, err := Find(changelog, "1.0.0-alpha")
	require.NoError(t, err)
	assert.Equal(t, []Change{{"added", "New thing."}, {"added", "Other."}}, s.Changes())
}

func TestChangelogOfTheProduct(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../CHANGELOG.md")
	require.NoError(t, err)
	sections, err := Parse(string(raw))
	require.NoError(t, err)
	for _, s := range sections {
		for _, c := range s.Changes() {
			assert.Contains(t, []string{"added", "changed", "deprecated", "removed", "fixed", "security"}, c.Kind, s.Version)
		}
	}
	_, err = Parse("text")
	require.ErrorContains(t, err, "changelog has no heading")
}

// The release page is not in the repository's root.
func TestReadMakesLinksAbsolute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "## [1.2.3] - 2026-11-21\n\n- See [a](docs/a.md#b), [c](https://example.org/c.md), [d](#d) and f(x).\n"
	require.NoError(t, os.WriteFile(dir+"/CHANGELOG.md", []byte(text), 0o600))
	s, err := Read(dir, "1.2.3")
	require.NoError(t, err)
	assert.Equal(t, "- See [a](https://github.com/csccm/csccm/blob/v1.2.3/docs/a.md#b), [c](https://example.org/c.md), [d](#d) and f(x).", s.Text)
}
