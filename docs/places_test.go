// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
	"github.com/csccm/csccm/pkg/version"
)

// ours matches an address that has our name in it: a URL, or an image.
var ours = regexp.MustCompile("(?:(?:https?|oci)://[^\\s\"'`<>()\\[\\]{}|\\\\]*csccm|\\b(?:ghcr|quay|docker)\\.io/[\\w/-]*csccm)[^\\s\"'`<>()\\[\\]{}|\\\\]*")

// elsewhere matches hosts of examples and tests, and names that are no address to visit.
var elsewhere = regexp.MustCompile(`^(\w+://)?([\w-]+\.)*(example\.(org|com)|invalid|test|localhost|svc)\b|^\w+://(127\.0\.0\.1|192\.0\.2\.|%s)`)

// mentioned matches the name of a page in the text of another file.
var mentioned = regexp.MustCompile(`(?:^|[\s("\x60;,])(docs/[\w-]+\.(?:md|yaml|svg))`)

// wrong returns what is wrong with an address of ours, or "".
func wrong(root string, byPath map[string]pages.Page, address string) string {
	address = strings.TrimRight(address, ".,;:*")
	if rest, is := strings.CutPrefix(strings.TrimPrefix(address, "oci://"), version.Registry); is {
		return wrongImage(root, rest)
	}
	for _, base := range []string{version.Pages, version.Raw, version.Repository + "/tree/main/"} {
		rest, is := strings.CutPrefix(address, base)
		if !is {
			continue
		}
		file, anchor, _ := strings.Cut(rest, "#")
		file, _, _ = strings.Cut(file, "%") // of a format: its folder must be there
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
			return "there is no " + file
		}
		if page, markdown := byPath[file]; anchor != "" && markdown && !page.Anchors[anchor] {
			return file + " has no heading " + anchor
		}
		return ""
	}
	if rest, is := strings.CutPrefix(address, version.Repository+"/.github/workflows/"); is { // the identity of a job
		file, _, _ := strings.Cut(rest, "@")
		if _, err := os.Stat(filepath.Join(root, ".github", "workflows", file)); err != nil {
			return "there is no workflow " + file
		}
		return ""
	}
	for _, place := range []string{version.Downloads, version.Charts} {
		if address == place || strings.HasPrefix(address, place+"/") {
			return ""
		}
	}
	for _, page := range []string{"", "/", ".git", "/issues", "/releases", "/security/advisories/new"} {
		if address == version.Repository+page {
			return ""
		}
	}
	return "pkg/version/version.go has no such place"
}

// wrongImage judges what follows the registry's name: images are named after their programs.
func wrongImage(root, rest string) string {
	if rest == "" || strings.HasPrefix(rest, ":") {
		return "" // the registry itself
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "@")
	name, _, _ = strings.Cut(name, ":")
	dir := filepath.Join("cmd", name)
	if chart, is := strings.CutPrefix(name, "charts"); is {
		dir = filepath.Join("charts", strings.Trim(chart, "/"))
	}
	if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
		return "nothing of this name is published: there is no " + filepath.ToSlash(dir)
	}
	return ""
}

// TestPublishedPlaces reads each file of the repository: an address of ours is a published place, and what it names in the repository
// exists.
func TestPublishedPlaces(t *testing.T) {
	t.Parallel()
	root, _, byPath := read(t)
	seen := map[string]int{}
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()) && rel != "charts/testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		raw, err := os.ReadFile(file) // #nosec G304 G122 -- files of the repository
		if err != nil || !utf8.Valid(raw) || d.Name() == "go.sum" || rel == "pkg/version/version.go" {
			return err
		}
		test := strings.HasSuffix(rel, "_test.go")
		for n, line := range strings.Split(string(raw), "\n") {
			for _, m := range mentioned.FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil && !test {
					t.Errorf("%s:%d: there is no %s", rel, n+1, m[1])
				}
			}
			for _, address := range ours.FindAllString(line, -1) {
				if test || elsewhere.MatchString(address) {
					continue
				}
				seen[strings.SplitN(rel, "/", 2)[0]]++
				if why := wrong(root, byPath, address); why != "" {
					t.Errorf("%s:%d: %s: %s", rel, n+1, address, why)
				}
			}
		}
		return nil
	}))
	for _, part := range []string{"Dockerfile", "charts", "cmd", "docs", "installer", ".github"} {
		assert.Positive(t, seen[part], "no address was found in %s", part)
	}
}

// TestHelpGivesAddresses: who reads a help text has the program, not the repository.
func TestHelpGivesAddresses(t *testing.T) {
	t.Parallel()
	root, _, _ := read(t)
	files, err := filepath.Glob(filepath.Join(root, "cmd", "csccm", "testdata", "help", "*.txt"))
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		raw, err := os.ReadFile(file) // #nosec G304 -- a file of the repository
		require.NoError(t, err)
		assert.NotRegexp(t, mentioned, string(raw), filepath.Base(file))
	}
}

// TestPagesThatAreShownElsewhere: Artifact Hub shows the chart's README, where a link to a file beside it leads nowhere.
func TestPagesThatAreShownElsewhere(t *testing.T) {
	t.Parallel()
	_, _, byPath := read(t)
	const file = "charts/cloudstack-ccm/README.md"
	require.NotEmpty(t, byPath[file].Links)
	for _, link := range byPath[file].Links {
		assert.Regexp(t, `^(https://|#)`, link, file)
	}
}
