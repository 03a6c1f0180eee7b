// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the tests of the documentation.
package docs

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
)

// site is how pages are named from outside the repository.
const site = "https://github.com/csccm/csccm/blob/main/"

func read(t *testing.T) (root string, all []pages.Page, byPath map[string]pages.Page) {
	t.Helper()
	root, err := pages.Root()
	require.NoError(t, err)
	all, err = pages.ReadAll(root)
	require.NoError(t, err)
	require.Greater(t, len(all), 15)
	byPath = map[string]pages.Page{}
	for _, p := range all {
		byPath[p.Path] = p
	}
	return root, all, byPath
}

// target resolves a link of a page to a path of the repository and an anchor; ok is false for what leads elsewhere.
func target(from, link string) (to, anchor string, ok bool) {
	if rest, own := strings.CutPrefix(link, site); own {
		from, link = "README.md", rest
	}
	u, err := url.Parse(link)
	if err != nil || u.IsAbs() || u.Host != "" {
		return "", "", false
	}
	if u.Path == "" {
		return from, u.Fragment, true
	}
	return path.Join(path.Dir(from), u.Path), u.Fragment, true
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	root, all, byPath := read(t)
	seen := 0
	for _, p := range all {
		for _, l := range p.Links {
			to, anchor, ok := target(p.Path, l.Target)
			if !ok {
				continue
			}
			seen++
			if strings.HasPrefix(to, "../") {
				t.Errorf("%s: the link to %q leads out of the repository", p.Path, l.Target)
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: the link to %q is dead: there is no %s", p.Path, l.Target, to)
				continue
			}
			if page, markdown := byPath[to]; anchor != "" && markdown && !page.Anchors[anchor] {
				t.Errorf("%s: the link to %q is dead: %s has no heading %q", p.Path, l.Target, to, anchor)
			}
		}
	}
	require.Greater(t, seen, 50)
}

// TestEveryPageIsTwoClicksAway: from the README, and from the index of docs/, every Markdown file is reached with two
// links at most.
func TestEveryPageIsTwoClicksAway(t *testing.T) {
	t.Parallel()
	_, all, byPath := read(t)
	for _, start := range []string{"README.md", "docs/README.md"} {
		reached := clicks(byPath, start, 2)
		for _, p := range all {
			if !reached[p.Path] {
				t.Errorf("%s is further than two clicks from %s: name it there or in docs/README.md", p.Path, start)
			}
		}
	}
}

// clicks are the files that are reached from a page with so many links.
func clicks(byPath map[string]pages.Page, start string, depth int) map[string]bool {
	reached, edge := map[string]bool{start: true}, []string{start}
	for ; depth > 0; depth-- {
		var next []string
		for _, from := range edge {
			for _, l := range byPath[from].Links {
				to, _, ok := target(from, l.Target)
				if _, folder := byPath[to+"/README.md"]; folder {
					to += "/README.md"
				}
				if ok && !reached[to] {
					reached[to] = true
					next = append(next, to)
				}
			}
		}
		edge = next
	}
	return reached
}

// TestEveryFileIsNamed: nothing lies in docs/ that no page speaks of.
func TestEveryFileIsNamed(t *testing.T) {
	t.Parallel()
	root, all, _ := read(t)
	named := map[string]bool{"docs/README.md": true}
	for _, p := range all {
		for _, l := range p.Links {
			if to, _, ok := target(p.Path, l.Target); ok {
				named[to] = true
			}
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) == ".go" {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); !named[rel] {
			t.Errorf("%s is named by no page", rel)
		}
		return nil
	})
	require.NoError(t, err)
}

// TestLinksOfTheCode: what the programs and the chart print as a page to read is there.
func TestLinksOfTheCode(t *testing.T) {
	t.Parallel()
	root, _, byPath := read(t)
	link := regexp.MustCompile(regexp.QuoteMeta(site) + `([\w./-]+)(?:#([\w-]+))?`)
	seen := 0
	for _, dir := range []string{"cmd", "pkg", "installer", "charts", "release"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, m := range link.FindAllStringSubmatch(string(raw), -1) {
				seen++
				to := strings.TrimRight(m[1], ".")
				if _, err := os.Stat(filepath.Join(root, to)); err != nil {
					t.Errorf("%s prints a link to %s, which does not exist", file, to)
				} else if page, markdown := byPath[to]; m[2] != "" && markdown && !page.Anchors[m[2]] {
					t.Errorf("%s prints a link to %s, which has no heading %q", file, to, m[2])
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.NotZero(t, seen)
}

// TestMakeTargets: `make X` in the text and in blocks is a target of the Makefile.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	root, all, _ := read(t)
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(raw), -1) {
		targets[m[1]] = true
	}
	commands, err := pages.Commands(all, "make")
	require.NoError(t, err)
	require.Greater(t, len(commands), 10)
	for _, c := range commands {
		for _, arg := range c.Args[1:] {
			if arg == "TARGET" || strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") {
				continue
			}
			if c.Page == "docs/release.md" && c.Args[1] == "--snapshot" {
				break // `go run ./release make` in short
			}
			if !targets[arg] {
				t.Errorf("%s: `%s`: the Makefile has no target %s", c.Page, c.Text, arg)
			}
		}
	}
}
