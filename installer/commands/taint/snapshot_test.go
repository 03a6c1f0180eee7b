// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	nodes := threeNodes()
	nodes[0].Annotations = map[string]string{"anything": "may hold a secret"}
	s := TakeSnapshot(nodes, "https://api", time.Unix(1_700_000_000, 0))
	dir := t.TempDir() + "/a/b"
	path, err := s.Write(dir)
	require.NoError(t, err)
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(body), "may hold a secret")
	var back Snapshot
	require.NoError(t, json.Unmarshal(body, &back))
	require.Equal(t, *s, back)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
