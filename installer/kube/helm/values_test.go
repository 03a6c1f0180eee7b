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
	got, err := ParseValues([]string{a, b}, []string{"hostNetwork=false", "bindAddress=$(POD_IP)"}, []string{"image.tag=20260101"})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"image": map[string]any{"tag": "20260101", "repository": "r"}, "replicaCount": float64(1), "hostNetwork": false, "bindAddress": "$(POD_IP)",
	}, got)
	_, err = ParseValues([]string{dir + "/none"}, nil, nil)
	require.ErrorContains(t, err, "chart values: open")
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
