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

// ours matches the URL or image of a place that belongs to this project.
var ours = regexp.MustCompile("(?:(?:https?|oci)://[^\\s\"'`<>()\\[\\]{}|\\\\]*csccm|\\b(?:ghcr|quay|docker)\\.io/[\\w/-]*csccm)[^\\s\"'`<>()\\[\\]{}|\\\\]*")

// elsewhere matches hosts of examples and tests, and names that are no addresses.
var elsewhere = regexp.MustCompile(`^(\w+://)?([\w-]+\.)*(example\.(org|com)|invalid|test|localhost|svc)\b|^\w+://(127\.0\.0\.1|192\.0\.2\.|%s)`)

// mentioned matches the name of a page in another file.
var mentioned = regexp.MustCompile(`(?:^|[\s("\x60;,])(docs/[\w-]+\.(?:md|yaml|svg))`)

// wrong returns what is wrong with an address of this project, "" if nothing is.
func wrong(root string, byPath map[string]pages.Page, address string) string {
	address = strings.TrimRight(strings.TrimPrefix(address, "oci://"), ".,;:*")
	// Each place is the start of an address and the folder in which the rest of the address must name a file. Images
	// are named after their programs.
	for _, place := range [][2]string{
		{version.Registry + "/charts", "charts"}, {version.Registry + "/", "cmd/"}, {version.Pages, ""},
		{version.Raw, ""},
		{version.Repository + "/tree/main/", ""}, {version.Repository + "/.github/workflows/", ".github/workflows/"},
	} {
		rest, is := strings.CutPrefix(address, place[0])
		if !is {
			continue
		}
		rest, anchor, _ := strings.Cut(rest, "#")
		file := place[1] + ending.ReplaceAllString(rest, "")
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
			return "there is no " + file
		}
		if page, markdown := byPath[file]; anchor != "" && markdown && !page.Anchors[anchor] {
			return file + " has no heading " + anchor
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

	if ending.ReplaceAllString(address, "") == version.Registry {
		return ""
	}

	return "pkg/version/version.go has no such place"
}

// ending matches what follows a name: the tag or digest of an image, the ref of a workflow, or a format verb. What
// comes before it must exist.
var ending = regexp.MustCompile(`[:@%].*`)

// TestPublishedPlaces reads each file of the repository. Each address of this project must be a published place, and
// the file that it names must exist.
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
