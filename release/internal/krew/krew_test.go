// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package krew

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

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
	// What krew-index's validation asks for; the names of the platforms are krew's own list.
	var m manifest
	require.NoError(t, yaml.UnmarshalStrict(out, &m))
	assert.LessOrEqual(t, len(m.Spec.ShortDescription), 50)
	for line := range strings.Lines(m.Spec.Description + m.Spec.Caveats) {
		assert.LessOrEqual(t, len(strings.TrimSpace(line)), 80, line)
	}
	for _, p := range m.Spec.Platforms {
		assert.Regexp(t, `^(linux|darwin|windows)/(amd64|arm64)$`, p.Selector.MatchLabels["os"]+"/"+p.Selector.MatchLabels["arch"])
		assert.Len(t, p.Selector.MatchLabels, 2)
		assert.Equal(t, p.Bin, p.Files[0].From)
	}
	_, err = Manifest("csccm", source.Tree{}, nil)
	require.EqualError(t, err, "krew manifest of csccm: no archives")
	_, err = Manifest("csccm", source.Tree{}, []Archive{{SHA256: "x"}})
	require.EqualError(t, err, `krew manifest of csccm: "x" is not a SHA-256 digest`)
}
