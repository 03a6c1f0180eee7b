// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDigest: a folder and an archive of it have one digest, whatever Chart.yaml looks like, and each other change of a file,
// a name or a field makes another.
func TestDigest(t *testing.T) {
	t.Parallel()
	of := func(path string) string {
		t.Helper()
		c, err := Load(path, "")
		require.NoError(t, err)
		d, err := c.Digest()
		require.NoError(t, err)
		require.Regexp(t, `^sha256:[0-9a-f]{64}$`, d)
		return d
	}
	files := map[string]string{
		"Chart.yaml":       "# a comment\nversion: 1.0.0\nname: a\napiVersion: v2\nkeywords: [x, y]\nmaintainers:\n  - name: m\n",
		"values.yaml":      "a: 1\n",
		"templates/a.yaml": "kind: A\n",
		"README.md":        "text\n",
		".helmignore":      "*.bak\n",
	}
	dir := func(over map[string]string) string {
		d := t.TempDir()
		for _, part := range []map[string]string{files, over} {
			for name, text := range part {
				path := filepath.Join(d, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
		}
		return d
	}
	want := of(dir(nil))
	require.Equal(t, want, of(dir(map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nmaintainers: [{name: m}]\nkeywords:\n- x\n- y\nversion: 1.0.0\n"})))
	require.Equal(t, want, of(dir(map[string]string{"x.bak": "ignored"})))
	c, err := Load(dir(nil), "")
	require.NoError(t, err)
	archive, err := c.Save(t.TempDir())
	require.NoError(t, err)
	require.Equal(t, want, of(archive))
	pack := newPackage()
	pack.Destination = t.TempDir()
	archive, err = pack.Run(dir(map[string]string{"x.bak": "ignored"}), nil)
	require.NoError(t, err)
	require.Equal(t, want, of(archive), "what helm package makes")
	seen := map[string]string{want: "the chart"}
	for name, text := range map[string]string{
		"values.yaml": "a: 2\n", "templates/a.yaml": "kind: B\n", "templates/b.yaml": "", "README.md": "text", "crds/x.yaml": "kind: A\n",
		"Chart.yaml": files["Chart.yaml"] + "description: another\n",
	} {
		d := of(dir(map[string]string{name: text}))
		require.NotContains(t, seen, d, name)
		seen[d] = name
	}
}
