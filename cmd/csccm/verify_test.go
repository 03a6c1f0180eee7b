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
	r := csccm(t, "", environment(), "verify", "files", "--public-key-file", key, sums)
	require.Equal(t, report.ExitOK, r.code, r.err)
	require.Contains(t, r.out, "FILE")
	require.Regexp(t, `a +sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb +yes +no`, r.out)

	r = csccm(t, "", environment(), "verify", "files", "-o", "json", "--public-key-file", key, sums)
	var found struct{ Files []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(r.out), &found))
	require.Len(t, found.Files, 1)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("b"), 0o600))
	r = csccm(t, "", environment(), "verify", "files", "--public-key-file", key, sums)
	require.Equal(t, report.ExitCheckFailed, r.code)
	require.Contains(t, r.err, "not the file that was signed")

	require.NoError(t, os.Remove(sums+".sig"))
	require.NoError(t, os.Remove(sums+".sigstore.json"))
	r = csccm(t, "", environment(), "verify", "files", "--public-key-file", key, sums)
	require.Equal(t, report.ExitCheckFailed, r.code)
	require.Contains(t, r.err, "no signature beside it")

	r = csccm(t, "", environment(), "verify", "image", "--public-key-file", key, "https://example.org/x")
	require.Equal(t, report.ExitFailure, r.code)
	require.Contains(t, r.err, "want HOST/PATH:TAG")
}

func TestVerifyUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--public-key-file names the key":      {"verify", "files", "SHA256SUMS"},
		"--public-key-file: open":              {"verify", "image", "--public-key-file", "/none", "example.org/x"},
		"name at least one image":              {"verify", "image"},
		"name the file SHA256SUMS":             {"verify", "files"},
		"public key: no PEM":                   {"verify", "files", "--public-key-file", "/dev/null", "SHA256SUMS"},
		`-o "xml" is none of text, json, yaml`: {"verify", "image", "-o", "xml", "example.org/x"},
		"csccm verify takes no arguments be":   {"verify", "example.org/x"},
	} {
		r := csccm(t, "", environment(), args...)
		require.Equal(t, report.ExitUsage, r.code, r.err)
		require.Contains(t, r.err, want)
	}
}
