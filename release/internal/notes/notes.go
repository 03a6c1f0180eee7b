// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notes parses CHANGELOG.md, which has the format of keepachangelog.com.
package notes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	places "github.com/csccm/csccm/pkg/version"
)

// Section is the section of one version in the changelog.
type Section struct {
	// Version has no leading v; it may be Unreleased. Date is the date in the heading, or empty.
	Version, Date string
	// Text does not include the heading.
	Text string
}

var heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\](?: - (\S+))?(.*)$`)

// Parse splits a changelog into its sections.
func Parse(changelog string) ([]Section, error) {
	found := heading.FindAllStringSubmatchIndex(changelog, -1)
	if len(found) == 0 {
		return nil, fmt.Errorf("changelog has no heading such as ## [1.2.3] - 2026-01-31")
	}
	var sections []Section
	for i, at := range found {
		end := len(changelog)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		s := Section{Version: strings.TrimPrefix(changelog[at[2]:at[3]], "v"), Text: strings.TrimSpace(changelog[at[1]:end])}
		if at[4] >= 0 {
			s.Date = changelog[at[4]:at[5]]
		}
		sections = append(sections, s)
	}
	return sections, nil
}

// relative matches the target of a link to another file of the repository.
var relative = regexp.MustCompile(`\]\(([\w.][^):]*)\)`)

// Read returns the section of a version (see Find) in the CHANGELOG.md of a directory. Its links to files of the repository become
// addresses of that release's files: the release page and Artifact Hub show the text elsewhere.
func Read(dir, version string) (*Section, error) {
	text, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	s, err := Find(string(text), version)
	if err != nil {
		return nil, err
	}
	s.Text = relative.ReplaceAllString(s.Text, "]("+places.Repository+"/blob/v"+version+"/${1})")
	return s, nil
}

// Find returns the section of a version. For a pre-release (with a hyphen) without a section, it returns that of the
// final release, or Unreleased. A release must have its own section with a date.
func Find(changelog, version string) (*Section, error) {
	sections, err := Parse(changelog)
	if err != nil {
		return nil, err
	}
	names := []string{version}
	release, _, pre := strings.Cut(version, "-")
	if pre {
		names = append(names, release, "Unreleased")
	}
	for _, name := range names {
		for _, s := range sections {
			if s.Version != name {
				continue
			}
			if s.Text == "" {
				return nil, fmt.Errorf("changelog: section %s is empty", name)
			}
			if _, err := time.Parse(time.DateOnly, s.Date); err != nil && !pre {
				return nil, fmt.Errorf("changelog: the heading of %s has no date: ## [%s] - 2026-01-31", name, name)
			}
			return &s, nil
		}
	}
	return nil, fmt.Errorf("changelog has no section ## [%s]", version)
}

// Changes returns the section's list items with their kinds, in the format of Artifact Hub's chart annotations.
func (s *Section) Changes() []Change {
	var changes []Change
	kind := "changed"
	for line := range strings.Lines(s.Text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "### "):
			kind = strings.ToLower(strings.TrimSpace(line[4:]))
		case strings.HasPrefix(line, "- "):
			changes = append(changes, Change{kind, strings.TrimSpace(line[2:])})
		case strings.HasPrefix(line, "  ") && len(changes) > 0:
			changes[len(changes)-1].Description += " " + strings.TrimSpace(line)
		}
	}
	return changes
}

// Change is one list item. Kind is added, changed, deprecated, removed, fixed or security.
type Change struct {
	Kind        string `json:"kind"`
	Description string `json:"description"`
}
