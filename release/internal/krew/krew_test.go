// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package krew

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/release/internal/gobuild"
	"github.com/csccm/csccm/release/internal/source"
)

func TestManifest(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	out, err := Manifest("csccm", source.Tree{Version: "1.2.3"}, []Archive{
		{gobuild.Platform{OS: "linux", Arch: "amd64"}, "https://example.org/x.tar.gz", sum},
		{gobuild.Platform{OS: "windows", Arch: "arm64"}, "https://example.org/x.zip", sum},
	})
	require.NoError(t, err)
	for _, want := range []string{
		"apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata:\n  name: csccm\n",
		"  version: v1.2.3\n",
		"  - bin: csccm\n    files:\n    - from: csccm\n      to: .\n    - from: LICENSE\n      to: .\n    selector:\n      matchLabels:\n        arch: amd64\n        os: linux\n    sha256: " + sum + "\n    uri: https://example.org/x.tar.gz\n",
		"  - bin: csccm.exe\n",
	} {
		assert.Contains(t, string(out), want)
	}
	// krew-index refuses longer ones.
	for line := range strings.Lines(string(out)) {
		if short, ok := strings.CutPrefix(strings.TrimSpace(line), "shortDescription: "); ok {
			assert.LessOrEqual(t, len(short), 50)
		}
	}
	_, err = Manifest("csccm", source.Tree{}, nil)
	require.EqualError(t, err, "krew manifest of csccm: no archives")
	_, err = Manifest("csccm", source.Tree{}, []Archive{{SHA256: "x"}})
	require.EqualError(t, err, `krew manifest of csccm: "x" is no SHA-256`)
}
