// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVendoredFiles compares third-party files with their pinned checksums. Every file is pinned and every package has
// a licence.
func TestVendoredFiles(t *testing.T) {
	t.Parallel()
	var vendored []struct {
		Package, Version, Licence string
		Files                     []struct{ File, From, SHA256 string }
	}

	content, err := fs.ReadFile(Files(), "vendor/vendor.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &vendored))
	pinned := []string{"vendor.json"}
	for _, p := range vendored {
		require.NotEmpty(t, p.Licence, p.Package)
		require.True(t,
			slices.ContainsFunc(p.Files,
				func(f struct{ File, From, SHA256 string }) bool { return f.File == p.Package+".LICENSE" }), p.Package)
		for _, f := range p.Files {
			content, err := fs.ReadFile(Files(), "vendor/"+f.File)
			require.NoError(t, err)
			sum := sha256.Sum256(content)
			require.Equal(t, f.SHA256, hex.EncodeToString(sum[:]), f.File)
			require.Contains(t, f.From, p.Package+"-"+p.Version+".tgz")
			pinned = append(pinned, f.File)
		}
	}

	entries, err := fs.ReadDir(Files(), "vendor")
	require.NoError(t, err)
	for _, e := range entries {
		require.Contains(t, pinned, e.Name())
	}
}

var (
	loads = regexp.MustCompile(`(?:from '|import '|src="|href=")([^'"#]+)['"]`)
	// unsafe matches code that makes HTML or code from data, or that needs more than the page's policy allows.
	unsafe = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\.html\(|\beval\(|new Function|setAttribute\('style|\.style\.cssText|<style|\sstyle=|\son[a-z]+="|javascript:`)
)

// TestFilesAreSafe: every file that another file loads exists and has this origin, and none of our own files makes HTML
// from data.
func TestFilesAreSafe(t *testing.T) {
	t.Parallel()
	total, loaded := 0, map[string]bool{"index.html": true}
	require.NoError(t, fs.WalkDir(Files(), ".", func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}

		content, err := fs.ReadFile(Files(), name)
		require.NoError(t, err)
		total += len(content)
		if strings.HasPrefix(name, "vendor/") {
			return nil
		}

		require.NotRegexp(t, unsafe, string(content), name)
		require.LessOrEqual(t, strings.Count(string(content), "\n"), 400, name)
		for _, m := range loads.FindAllStringSubmatch(string(content), -1) {
			if m[1] == "data:," {
				continue
			}
			other := path.Join(path.Dir(name), m[1])
			_, err := fs.Stat(Files(), other)
			require.NoError(t, err, "%s loads %s", name, m[1])
			loaded[other] = true
		}

		return nil
	}))

	names, err := fs.Glob(Files(), "*.*")
	require.NoError(t, err)
	for _, name := range names {
		require.True(t, loaded[name], "nothing loads %s", name)
	}

	require.Less(t, total, 144<<10, "the binaries grow by all of it")
}

// TestContrast: text is readable on every background, dark and light (WCAG 2.2, 1.4.3). The audit in a browser covers
// only light pages.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := fs.ReadFile(Files(), "app.css")
	require.NoError(t, err)
	light, dark, found := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	require.True(t, found)
	for name, part := range map[string]string{"light": light, "dark": dark} {
		luminance := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(part, -1) {
			rgb, err := hex.DecodeString(m[2])
			require.NoError(t, err)
			for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
				c := float64(rgb[i]) / 255
				if c <= 0.04045 {
					c /= 12.92
				} else {
					c = math.Pow((c+0.055)/1.055, 2.4)
				}
				luminance[m[1]] += weight * c
			}
		}

		pairs := []string{"accent card", "accent back", "text card", "text back", "soft card", "soft back"}
		for _, tone := range []string{"ok", "pending", "warning", "error", "orphan", "foreign"} {
			pairs = append(pairs, tone+" "+tone+"-back", tone+" card", tone+" back", "text "+tone+"-back")
		}

		for _, p := range pairs {
			a, b, _ := strings.Cut(p, " ")
			require.True(t, luminance[a] > 0 && luminance[b] > 0, "%s has no %s", name, p)
			require.GreaterOrEqual(t, (max(luminance[a], luminance[b])+0.05)/(min(luminance[a], luminance[b])+0.05),
				4.5, "%s: %s", name, p)
		}
	}
}
