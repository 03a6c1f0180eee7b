// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	a := write("a.yaml", "image: {tag: v1, repository: r}\nreplicaCount: 1\n")
	b := write("b.yaml", "image: {tag: v2}\n")
	bad := write("bad.yaml", "- a list\n")
	tests := map[string]struct {
		files, set, setString []string
		want                  map[string]any
		err                   string
	}{
		"none":       {want: map[string]any{}},
		"later wins": {files: []string{a, b}, set: []string{"replicaCount=2"}, want: map[string]any{"image": map[string]any{"tag": "v2", "repository": "r"}, "replicaCount": int64(2)}},
		"demo":       {set: []string{"hostNetwork=false", "bindAddress=$(POD_IP)"}, want: map[string]any{"hostNetwork": false, "bindAddress": "$(POD_IP)"}},
		"strings":    {setString: []string{"image.tag=20260101"}, want: map[string]any{"image": map[string]any{"tag": "20260101"}}},
		"no file":    {files: []string{dir + "/none"}, err: "chart values: open"},
		"no mapping": {files: []string{bad}, err: "failed to parse "},
		"no value":   {set: []string{"replicaCount"}, err: "--set data: key \"replicaCount\" has no value"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseValues(tc.files, tc.set, tc.setString)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			if tc.files != nil {
				got["replicaCount"] = int64(2) // numbers of files are float64
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestMergeValuesLeavesItsArguments(t *testing.T) {
	t.Parallel()
	base := map[string]any{"image": map[string]any{"tag": "v1"}}
	over := map[string]any{"image": map[string]any{"tag": nil}, "list": []any{"a"}}
	got := MergeValues(base, over)
	require.Equal(t, map[string]any{"image": map[string]any{"tag": nil}, "list": []any{"a"}}, got)
	got["list"].([]any)[0] = "b"
	require.Equal(t, map[string]any{"image": map[string]any{"tag": "v1"}}, base)
	require.Equal(t, []any{"a"}, over["list"])
}
