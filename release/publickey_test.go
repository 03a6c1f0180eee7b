// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/sign"
)

func TestPublishKey(t *testing.T) {
	t.Parallel()
	f := newTree(t, map[string]string{"CHANGELOG.md": "# Changelog\n"})
	require.True(t, keyPublished(f.dir).ok)

	other, err := sign.Generate()
	require.NoError(t, err)
	require.ErrorContains(t, isPublished(f.dir, other.Public()), "cosign.pub has the fingerprint ")

	file := filepath.Join(t.TempDir(), "other.pub")
	require.NoError(t, os.WriteFile(file, other.Public().PEM(), 0o600))
	said := strings.TrimSpace(f.must("publish-key", "--public-key-file", file))
	require.NoError(t, isPublished(f.dir, other.Public()))
	for _, page := range keyPages {
		text, err := os.ReadFile(filepath.Join(f.dir, page))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(text), "\n    "+said+"\n"), "%s names the new key alone", page)
		assert.True(t, strings.HasPrefix(string(text), "before\n") && strings.HasSuffix(string(text), "after\n"), page)
	}
	// The command that the pages name computes the same.
	if _, err := exec.LookPath("openssl"); err == nil {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "openssl pkey -pubin -in cosign.pub -outform DER | sha256sum")
		cmd.Dir = f.dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Equal(t, said, strings.Fields(string(out))[0])
	}

	f.write("SECURITY.md", keyBegin+keyEnd)
	assert.Equal(t, "no  public key      SECURITY.md does not name the key of cosign.pub: go run ./release publish-key", keyPublished(f.dir).String())
	f.write("SECURITY.md", "\n")
	assert.Contains(t, keyPublished(f.dir).detail, "SECURITY.md has no place for the key")
	f.write("cosign.pub", "no key")
	assert.Contains(t, keyPublished(f.dir).detail, "cosign.pub: public key: no PEM")
	require.NoError(t, os.Remove(filepath.Join(f.dir, publicKeyFile)))
	assert.Equal(t, errNoKey.Error(), keyPublished(f.dir).detail)
}

// TestKeyOfThisRepository: the pages of this repository and its key agree. Before the first release there is no key, and they say so.
func TestKeyOfThisRepository(t *testing.T) {
	t.Parallel()
	const root = ".."
	_, err := publishedKey(root)
	if !errors.Is(err, errNoKey) {
		require.NoError(t, err)
		return
	}
	for _, page := range keyPages {
		_, says, _, err := readKeyPage(root, page)
		require.NoError(t, err)
		assert.Contains(t, says, "no key is published yet", page)
		assert.NotRegexp(t, `[0-9a-f]{64}`, says, page)
	}
}
