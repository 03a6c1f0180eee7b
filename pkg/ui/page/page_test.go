// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVendoredFiles compares what others wrote with its pinned sums. Every file is pinned and every package has a licence.
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
		require.True(t, slices.ContainsFunc(p.Files, func(f struct{ File, From, SHA256 string }) bool { return f.File == p.Package+".LICENSE" }), p.Package)
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
	// What would make HTML or code from data, or needs more than the page's policy allows.
	unsafe = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\.html\(|\beval\(|new Function|setAttribute\('style|\.style\.cssText|<style|\sstyle=|\son[a-z]+="|javascript:`)
)

// TestFilesAreSafe: every file that another loads is there, from this origin, and none of ours makes HTML from data.
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
