// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/engine/report"
)

// testdata/verify was made by the release program: `release key`, and what makeSums writes.
func TestVerifyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/verify")))
	sums, key := filepath.Join(dir, "SHA256SUMS"), filepath.Join(dir, "cosign.pub")
	r := execute(t, "verify", "files", "--public-key-file", key, sums)
	require.Equal(t, report.ExitOK, r.code, r.errOut)
	require.Contains(t, r.out, "FILE")
	require.Regexp(t, `a +sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb +yes +no`, r.out)

	r = execute(t, "verify", "files", "-o", "json", "--public-key-file", key, sums)
	var found struct{ Files []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(r.out), &found))
	require.Len(t, found.Files, 1)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("b"), 0o600))
	r = execute(t, "verify", "files", "--public-key-file", key, sums)
	require.Equal(t, report.ExitCheckFailed, r.code)
	require.Contains(t, r.errOut, "not the file that was signed")

	require.NoError(t, os.Remove(sums+".sig"))
	require.NoError(t, os.Remove(sums+".sigstore.json"))
	r = execute(t, "verify", "files", "--public-key-file", key, sums)
	require.Equal(t, report.ExitCheckFailed, r.code)
	require.Contains(t, r.errOut, "no signature beside it")

	r = execute(t, "verify", "image", "--public-key-file", key, "https://example.org/x")
	require.Equal(t, report.ExitFailure, r.code)
	require.Contains(t, r.errOut, "want HOST/PATH:TAG")
}
